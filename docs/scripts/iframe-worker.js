// The search of the site runs in a worker, and browsers start no worker for a page that is read from disk. There, a
// hidden frame takes its place: the same script, the same messages. From a server nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open(); // from here on the frame's document stays this one
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((done) => {
        const script = inside.document.createElement("script");
        script.onload = done;
        script.src = url;
        inside.document.append(inside.document.createElement("html"));
        inside.document.documentElement.append(script);
      });
      inside.document.close();
    }

    async postMessage(data) {
      await this.ready;
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
