// Which application shows the page, for bug reports: its name and version, as far as it says.

/** "JupyterLab 4.6.6", "VS Code", or nothing. */
export function hostName(): string {
  const config = document.getElementById("jupyter-config-data")?.textContent;
  if (config) {
    try {
      const { appName, appVersion } = JSON.parse(config);
      if (typeof appName === "string") return `${appName} ${appVersion ?? ""}`.trim().slice(0, 100);
    } catch {
      return "Jupyter";
    }
  }
  if (location.protocol === "vscode-webview:") return "VS Code";
  if (location.hostname.endsWith(".googleusercontent.com")) return "Colab";
  return document.querySelector("marimo-filename, marimo-code") === null ? "" : "marimo";
}
