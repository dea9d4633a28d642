// The entry of an exported page: the Viewer of the network that the page holds, without Python.
import { FEATURES } from "./features/index.ts";
import { type Page, PageClient } from "./page/client.ts";
import { exportedOf, takeContents } from "./page/contents.ts";
import { startLesson } from "./page/lesson.ts";
import { mount } from "./views/app.tsx";
import { WEBGL } from "./webgl/runtime.ts";

declare global {
  interface Window {
    /** Resolves when the first pictures stand; rejects with why they cannot be. */
    nbglcnn: Promise<Page>;
  }
}

async function open(): Promise<Page> {
  const place = document.getElementById("nbglcnn-viewer");
  if (place === null) throw new Error("this page has no place for its Viewer");
  const exported = exportedOf();
  const client = new PageClient(exported, WEBGL, FEATURES);
  mount(place, client.state, FEATURES);
  client.watch();
  await new Promise((done) => setTimeout(done)); // so that the page says what it does meanwhile
  await client.take(takeContents());
  startLesson((step) => client.show(exported.steps[step] ?? {}));
  await client.start();
  return client.page();
}

window.nbglcnn = open();
window.nbglcnn.catch((error: unknown) => console.error(`nbglcnn: ${error}`)); // the view says it too
