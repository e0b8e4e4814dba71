// The question editor: CodeMirror in a shadow root, where its own style sheets are allowed by a strict policy.
import {
  EditorView, HighlightStyle, PostgreSQL, Prec, autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap,
  completionKeymap, keymap, minimalSetup, sql, syntaxHighlighting, tags, tooltips,
} from "./vendor/codemirror.js";

const WORDS = ["SELECT", "COUNT(*)", "SUM(", "AVG(", "FROM release", "WHERE", "AND", "OR", "NOT", "IN (", "BETWEEN",
  "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "AS", "DESC", "CUBE (", "ROLLUP (", "FILTER (WHERE ", "INTERVAL_LOW(",
  "INTERVAL_HIGH(", "STD_ERROR(", "CASE WHEN", "THEN", "ELSE", "END", "IS NULL"];

const theme = EditorView.theme({
  "&": { fontSize: "0.95rem", color: "var(--ink)", backgroundColor: "var(--field)", borderRadius: "6px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { padding: "12px 4px", minHeight: "9.5em", caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14em" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 8px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { opacity: "0.75", marginLeft: "1em", fontStyle: "normal" },
});
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent-text)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--warm-text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warm-text)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
]);

const vocabularies = new Map();
function vocabulary(url) {
  if (!vocabularies.has(url)) vocabularies.set(url, fetch(url).then((r) => (r.ok ? r.json() : { columns: [] })));
  return vocabularies.get(url);
}

const quoted = (name) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
const literal = (value) => (typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value));

// Values after a comparison with their column; columns and words elsewhere.
function completions(url) {
  return async (context) => {
    const { columns } = await vocabulary(url);
    const before = context.state.sliceDoc(0, context.pos);
    const compared = before.match(/("(?:[^"]|"")+"|[A-Za-z_]\w*)\s*(?:=|<>|!=|LIKE|(?:NOT\s+)?IN\s*\((?:\s*'(?:[^']|'')*'\s*,)*)\s*('?[^'\s,()]*)$/i);
    const name = compared && compared[1].replace(/^"|"$/g, "").replaceAll('""', '"').toLowerCase();
    const column = name && columns.find((c) => c.name.toLowerCase() === name);
    if (column && column.values) {
      const typed = compared[2].replace(/^'/, "").toLowerCase();
      const found = column.values.filter((v) => v !== null && String(v).toLowerCase().includes(typed));
      const begins = (v) => String(v).toLowerCase().startsWith(typed);
      const options = [...found.filter(begins), ...found.filter((v) => !begins(v))].map((v) => ({ label: literal(v), type: "constant" }));
      // a bracket that the editor closed by itself is replaced too
      const after = context.state.sliceDoc(context.pos, context.pos + 1);
      return { from: context.pos - compared[2].length, to: compared[2].startsWith("'") && after === "'" ? context.pos + 1 : undefined, options, filter: false };
    }
    const word = context.matchBefore(/"?[\w]*$/);
    if (!word || (word.from === word.to && !context.explicit)) return null;
    const options = columns.map((c) => ({ label: quoted(c.name), detail: `${c.type.toLowerCase()}, ${c.role}`, type: "property", boost: 2 }));
    return { from: word.from, options: [...options, ...WORDS.map((label) => ({ label, type: "keyword" }))] };
  };
}

export function mount(area) {
  const host = document.createElement("div");
  host.className = "editor";
  area.after(host);
  const root = host.attachShadow({ mode: "open" });
  const ask = () => { area.form.requestSubmit(); return true; };
  const view = new EditorView({
    doc: area.value,
    root,
    parent: root,
    extensions: [
      Prec.highest(keymap.of([{ key: "Mod-Enter", run: ask }])),
      minimalSetup,
      keymap.of([...closeBracketsKeymap, ...completionKeymap]),
      sql({ dialect: PostgreSQL, upperCaseKeywords: true }),
      autocompletion({ override: [completions(area.dataset.vocabulary)], icons: false }),
      tooltips({ parent: root.ownerDocument.body === null ? undefined : root }),
      bracketMatching(),
      closeBrackets(),
      syntaxHighlighting(colours),
      theme,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": area.getAttribute("aria-label"), "aria-multiline": "true", id: "sql-editor" }),
      EditorView.updateListener.of((update) => { if (update.docChanged) area.value = update.state.doc.toString(); }),
    ],
  });
  area.hidden = true;
  host.view = view;
}
