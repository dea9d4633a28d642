// Opens an exported page: its Viewer, with these features, of the network that it holds.
import type { Feature } from "../features/feature.ts";
import type { Runtime } from "../plan/runtime.ts";
import { mount } from "../views/app.tsx";
import { type Page, PageClient } from "./client.ts";
import { exportedOf, takeContents } from "./contents.ts";
import { startLesson } from "./lesson.ts";

declare global {
  interface Window {
    /** Resolves when the first pictures stand; rejects with why they cannot be. */
    nbglcnn: Promise<Page>;
  }
}

export function openPage(runtime: Runtime, features: readonly Feature[]): void {
  window.nbglcnn = open(runtime, features);
  window.nbglcnn.catch((error: unknown) => console.error(`nbglcnn: ${error}`)); // the view says it too
}

async function open(runtime: Runtime, features: readonly Feature[]): Promise<Page> {
  const place = document.getElementById("nbglcnn-viewer");
  if (place === null) throw new Error("this page has no place for its Viewer");
  const exported = exportedOf();
  const client = new PageClient(exported, runtime, features);
  mount(place, client.state, features);
  client.watch();
  await new Promise((done) => setTimeout(done)); // so that the page says what it does meanwhile
  await client.take(takeContents());
  startLesson((step) => client.show(exported.steps[step] ?? {}));
  await client.start();
  return client.page();
}
