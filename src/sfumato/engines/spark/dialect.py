"""Statements in Spark's SQL: what sqlglot's writer for Spark gets wrong is put right before it writes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp


def spark_text(statement: exp.Query, tables: Mapping[str, str]) -> str:
    """The statement for Spark; `tables` are the names that its tables have there."""

    def change(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and node.name in tables:
            # with an alias: Spark may take a WHERE after a bare name for one, and the parentheses for its columns
            return exp.table_(tables[node.name], alias=node.alias or node.name)
        if isinstance(node, exp.DataType) and node.this in {exp.DataType.Type.INT128, exp.DataType.Type.UINT128}:
            return exp.DataType.build("DECIMAL(38, 0)")
        if isinstance(node, exp.PercentileCont) and node.expression:  # quantile_cont(column, share)
            return exp.Anonymous(this="percentile", expressions=[node.this, node.expression])
        if isinstance(node, exp.PercentileDisc) and node.expression:
            order = exp.Order(expressions=[exp.Ordered(this=node.this)])
            return exp.WithinGroup(
                this=exp.Anonymous(this="percentile_disc", expressions=[node.expression]), expression=order
            )
        return node

    return statement.copy().transform(change).sql(dialect="spark")
