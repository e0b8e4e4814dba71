"""Draw the privacy-annotated hierarchy of the salary example: python docs/figures/target_distribution.py

Every node shows its block, the weight of its share among its siblings, how many of the group's values lie inside, how
many blocks it was asked for, and how many of them stay. The numbers come from the planner.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.laws.block_tree import balanced
from sfumato.methods.target_distribution import plan

VALUES = (30, 40, 50, 60)
GROUP = (0, 1, 0, 3)  # 40, 60, 60, 60
WIDTH, HEIGHT, ROW = 720, 330, 105


def draw() -> str:
    """The SVG text."""
    tree = balanced(len(VALUES))
    weights = plan.quantise(tree, plan.uniform_masses(len(VALUES))).weights
    counts = np.array([GROUP])
    stays = plan.plan(tree, weights, counts)[0]
    inside = plan.node_counts(tree, counts)[0]
    asked = plan.subtree_blocks(tree, stays[None])[0]
    place = {}
    for depth, level in enumerate(tree.levels):
        for node in range(level.start, level.stop):
            middle = (tree.start[node] + tree.stop[node]) / 2 / tree.leaves
            place[node] = (20 + middle * (WIDTH - 40), 45 + depth * ROW)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="13">',
        "<title>Privacy-annotated hierarchy of the group 40, 60, 60, 60 with a uniform target</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for node in range(1, tree.nodes):
        (x, y), (px, py) = place[node], place[int(tree.parent[node])]
        parts.append(f'<line x1="{px:.0f}" y1="{py + 32:.0f}" x2="{x:.0f}" y2="{y - 24:.0f}" stroke="#888888"/>')
        parts.append(
            f'<text x="{(x + px) / 2 + (18 if x > px else -18):.0f}" y="{(y + py) / 2 + 6:.0f}" fill="#555555" '
            f'text-anchor="{"start" if x > px else "end"}">weight {weights[node]}</text>'
        )
    for node in range(tree.nodes):
        x, y = place[node]
        low, high = VALUES[tree.start[node]], VALUES[tree.stop[node] - 1]
        name = f"{low}K" if low == high else f"{low}K-{high}K"
        fill = "#dcebf7" if stays[node] else "#f4f4f4"
        parts.append(
            f'<rect x="{x - 74:.0f}" y="{y - 24:.0f}" width="148" height="56" rx="6" fill="{fill}" stroke="#33506b"/>'
        )
        for line, text, weight in (
            (-8, name, "bold"),
            (9, f"{inside[node]} of the values inside", "normal"),
            (25, f"asked for {asked[node]}, {stays[node]} stay here", "normal"),
        ):
            parts.append(
                f'<text x="{x:.0f}" y="{y + line:.0f}" text-anchor="middle" font-weight="{weight}">{text}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("target-distribution-tree.svg").write_text(draw(), encoding="utf-8")
