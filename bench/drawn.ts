// The Viewer's work at every run: keeps all layers, computes all ranges, and draws all maps into 2-D canvases.
import { openDevice } from "../js/src/webgl/gl_device.ts";
import { parsePlan } from "../js/src/plan/plan_file.ts";
import { createSession } from "../js/src/webgl/session.ts";
import type { DrawJob, Session } from "../js/src/plan/runtime.ts";
import type { Value } from "../js/src/plan/schema.ts";
import { fitScale, tileSide } from "../js/src/views/layout.ts";
import type { Peer } from "./peers.ts";

const VIEWPORT = { width: 1400, height: 1100 };
const GAP = 1;
/** The maximum side of a drawn map in pixels. */
const MOST = 28;
const CELL = MOST + GAP;

/** A drawing of as many of a value's maps as fit a box, at their own resolution unless that is too large. */
function jobOf({ key, layout }: Value, box: { columns: number; rows: number }): DrawJob {
  const [, channels, h, w] = layout.nchw;
  const scale = Math.min(1, fitScale(Math.max(h, w), MOST));
  const fit = (pixels: number, cells: number) =>
    Math.max(1, Math.floor((cells * CELL) / (tileSide(pixels, scale) + GAP)));
  const columns = fit(w, box.columns);
  const shown = Math.min(channels, columns * fit(h, box.rows));
  return {
    key,
    canvas: document.createElement("canvas"),
    image: 0,
    channels: Array.from({ length: shown }, (_, k) => k),
    columns,
    gap: GAP,
    scale,
    colormap: "signed",
    theme: "light",
    range: { mode: "layer" },
    drawMode: "maps",
  };
}

/** One picture per value, all in the viewport, each in a box of equal size. */
function jobsOf(values: readonly Value[]): DrawJob[] {
  const [across, down] = [VIEWPORT.width, VIEWPORT.height].map((side) => Math.floor(side / CELL));
  let best = { columns: 0, rows: 0 };
  for (let columns = 1; columns <= (across ?? 0); columns++) {
    const lines = Math.ceil(values.length / Math.floor((across ?? 0) / columns));
    const rows = Math.floor((down ?? 0) / lines);
    if (columns * rows > best.columns * best.rows) best = { columns, rows };
  }
  return values.map((value) => jobOf(value, best));
}

function pixel(job: DrawJob | undefined): ImageData {
  const context = job?.canvas.getContext("2d");
  if (!context) throw new Error("this network has no maps");
  return context.getImageData(0, 0, 1, 1);
}

export async function makeDrawn(): Promise<Peer> {
  const file = parsePlan(await (await fetch("/model/all.plan")).arrayBuffer());
  const device = openDevice();
  // Modules repeat their last layer, and the Viewer shows vectors as bars.
  const shown = file.plan.values.filter(
    ({ kind, layout }) => kind === "layer" && layout.nchw[2] * layout.nchw[3] > 1,
  );
  const jobs = jobsOf(shown);
  const view = document.createElement("div");
  view.append(...jobs.map((job) => job.canvas));
  const [input, output] = [file.plan.inputs[0]?.key ?? "", file.plan.outputs[0] ?? ""];
  let session: Session | undefined;

  /** Returns when the pictures have arrived: they come in one transfer, so reading one pixel suffices. */
  const finish = () => {
    const { data } = pixel(jobs.at(-1));
    if (data[3] !== 255) throw new Error("nothing was drawn");
  };
  return {
    async start() {
      document.body.append(view);
      session = await createSession(device, file.plan, file.uniforms, file.getWeight);
    },
    async run(data) {
      if (session === undefined) throw new Error("start() comes first");
      session.write(input, data);
      const found = await session.read(output);
      session.draw(jobs);
      finish();
      return found;
    },
    runAll: () => Promise.reject(new Error("draws instead of reading")),
    close() {
      view.remove();
      session?.dispose();
      device.dispose();
    },
  };
}
