// Pages opened from a file may start no worker. Search then runs in a hidden frame that takes messages as a worker does.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = () => Promise.resolve()
      const script = this.inside.document.createElement("script")
      script.src = new URL(address, location.href)
      script.onload = () => {
        for (const data of this.waiting) this.deliver(data)
        this.waiting = null
      }
      this.inside.document.body.appendChild(script)
    }
    deliver(data) {
      setTimeout(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
    }
    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.deliver(data)
    }
    terminate() {}
  }
}
