// Pages that are read from a disk (file://) may not start workers: there the search runs in a hidden frame, with the same
// messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      inner.document.open();
      inner.document.write("<!doctype html><html><body></body></html>");
      inner.document.close();
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", {data});
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const element = inner.document.createElement("script");
      element.src = script;
      element.onload = () => {
        this.loaded = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      inner.document.body.appendChild(element);
    }
    postMessage(data) {
      if (!this.loaded) return void this.waiting.push(data);
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
    }
    terminate() { this.frame.remove(); }
  };
}
