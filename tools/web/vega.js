// Vega-Lite, Vega and the expression interpreter (which needs no `eval`), as one module.
export { parse, View, loader } from "vega";
export { compile } from "vega-lite";
export { expressionInterpreter } from "vega-interpreter";
