// Opens an exported page: mounts a Viewer with these features for the embedded network.
import type { Feature } from "../features/feature.ts";
import type { Runtime } from "../plan/runtime.ts";
import { mount } from "../views/app.tsx";
import { startLesson } from "./lesson_steps.ts";
import { type PageApi, PageClient } from "./page_client.ts";
import { extractContents, readPageData } from "./page_contents.ts";

declare global {
  interface Window {
    /** Resolves when the first pictures are drawn; rejects if the page cannot run the network. */
    nbglcnn: Promise<PageApi>;
  }
}

export function openPage(runtime: Runtime, features: readonly Feature[]): void {
  window.nbglcnn = openViewer(runtime, features);
  window.nbglcnn.catch((error: unknown) => console.error(`nbglcnn: ${error}`)); // the view shows it
}

async function openViewer(runtime: Runtime, features: readonly Feature[]): Promise<PageApi> {
  const place = document.getElementById("nbglcnn-viewer");
  if (place === null) throw new Error("this page has no place for its Viewer");
  const exported = readPageData();
  const client = new PageClient(exported, runtime, features);
  mount(place, client.state, features);
  client.addView();
  await new Promise((done) => setTimeout(done)); // so that the page shows its status meanwhile
  await client.load(extractContents());
  startLesson((step) => client.show(exported.steps[step] ?? {}));
  await client.start();
  return client.createApi();
}
