/* A worker for pages that are opened as files, where browsers start none: its script runs in a frame of its own.

   The search of the theme asks for `new Worker(address)`, sends messages and listens to "message"; that is all there is
   here. Pages that come from a server keep the browser's own workers. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(source, location.href);
          script.onload = done;
          script.onerror = failed;
          inside.document.body.append(script);
        });
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.ready = load(address).then(() => inside);
      this.frame = frame;
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
