// The parts of CodeMirror that the question editor uses, as one module.
export { minimalSetup, EditorView } from "codemirror";
export { keymap, placeholder, tooltips } from "@codemirror/view";
export { Prec } from "@codemirror/state";
export { sql, PostgreSQL } from "@codemirror/lang-sql";
export { bracketMatching, syntaxHighlighting, HighlightStyle } from "@codemirror/language";
export { autocompletion, completionKeymap, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
export { tags } from "@lezer/highlight";
