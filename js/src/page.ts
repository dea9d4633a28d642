// The entry of an exported page: the Viewer of the network that the page holds, without Python.
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
  const client = new PageClient(exported, WEBGL);
  mount(place, client.state);
  client.watch();
  await new Promise((done) => setTimeout(done)); // so that the page says what it does meanwhile
  await client.take(takeContents());
  startLesson((step) => client.show(exported.steps[step] ?? {}));
  await client.start();
  const { keys, training } = client;
  return Object.freeze<Page>({
    keys,
    read: (key) => client.read(key),
    run: (input) => client.run(input),
    show: (view) => client.show(view),
    edit: (edits) => client.edit(edits),
    train: () => training.train(),
    pause: () => training.pause(),
    step: (count) => training.step(count),
    reset: () => training.reset(),
    get losses() {
      return training.losses;
    },
    weights: () => training.weights(),
  });
}

window.nbglcnn = open();
window.nbglcnn.catch((error: unknown) => console.error(`nbglcnn: ${error}`)); // the view says it too
