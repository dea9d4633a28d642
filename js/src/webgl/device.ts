// The page's one WebGL 2 context: what hangs on it, and its death and rebirth.

import { type Alive, type Capabilities, ContextLostError, type Device } from "../plan/runtime.ts";
import { calm } from "./clock.ts";
import {
  type Canvas,
  capabilitiesOf,
  FLOATS,
  lostAtBirth,
  type Opened,
  openContext,
} from "./context.ts";
import { State } from "./gl_state.ts";
import { measureReads, type Reads } from "./probe.ts";
import { Programs } from "./programs.ts";
import { Resources } from "./resources.ts";
import { SharedTextures } from "./shared_weights.ts";

/** How long the browser may take to give the context back before we ask for another, and again. */
const RETRY_MS = [5_000, 10_000, 20_000];

/** The page's one WebGL 2 context; throws DeviceUnavailable. */
export function openDevice(): GlDevice {
  const device = new GlDevice(openContext());
  if (!device.gl.isContextLost()) return device;
  device.dispose();
  throw lostAtBirth();
}

export class GlDevice implements Device {
  readonly capabilities: Capabilities;
  readonly alive: Alive = { textures: 0, programs: 0, buffers: 0, framebuffers: 0 };
  canvas!: Canvas;
  gl!: WebGL2RenderingContext;
  state!: State;
  programs!: Programs;
  resources!: Resources;
  shared!: SharedTextures;
  lost = false;
  /** Counts contexts: what was made in an earlier one is gone. */
  generation = 0;
  private disposed = false;
  private reads: Promise<Reads> | undefined;
  private readTexture = false;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private unlisten: () => void = () => undefined;
  private readonly whenLost = new Set<() => void>();
  private readonly whenRestored = new Set<() => void>();
  private readonly rebuilds = new Set<() => Promise<void>>();

  constructor(opened: Opened) {
    this.capabilities = capabilitiesOf(opened);
    this.adopt(opened);
  }

  onLost(callback: () => void): () => void {
    this.whenLost.add(callback);
    return () => this.whenLost.delete(callback);
  }

  onRestored(callback: () => void): () => void {
    this.whenRestored.add(callback);
    return () => this.whenRestored.delete(callback);
  }

  /** Called after a loss, in a new context; returns what undoes it. */
  onRebuild(callback: () => Promise<void>): () => void {
    this.rebuilds.add(callback);
    return () => this.rebuilds.delete(callback);
  }

  /** Throws when what was made in context `generation` cannot be used any more. */
  check(generation = this.generation): void {
    if (this.disposed || this.generation !== generation || this.gl.isContextLost()) {
      throw new ContextLostError(this.disposed ? "the graphics device was closed" : undefined);
    }
  }

  /** How this device reads textures best, measured once. */
  async measured(): Promise<Reads> {
    this.reads ??= measureReads(this);
    try {
      const reads = await this.reads;
      this.readTexture = this.programs.readTexture = reads.readTexture;
      return reads;
    } catch (error) {
      this.reads = undefined;
      throw error;
    }
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    clearTimeout(this.retry);
    this.unlisten();
    this.whenLost.clear();
    this.whenRestored.clear();
    this.rebuilds.clear();
    // Browsers keep 16 contexts; a dropped one counts until it is collected.
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private adopt({ canvas, gl, precision }: Opened): void {
    this.canvas = canvas;
    this.gl = gl;
    Object.assign(this.alive, { textures: 0, programs: 0, buffers: 0, framebuffers: 0 });
    // What a lost context took with it has to be asked for again, extensions too.
    const floats = FLOATS.flatMap(({ extensions }) => extensions);
    for (const name of [...floats, "EXT_disjoint_timer_query_webgl2"]) gl.getExtension(name);
    this.state = new State(gl);
    this.programs = new Programs(gl, this.state, this.alive, () => calm(this));
    this.programs.readTexture = this.readTexture;
    this.resources = new Resources(gl, this.state, this.alive, precision);
    this.shared = new SharedTextures(this.resources);
    gl.disable(gl.DITHER);
    this.unlisten();
    const lost = (event: Event) => {
      event.preventDefault(); // or it is never restored
      this.lose();
    };
    const restored = () => void this.restore({ canvas, gl, precision });
    canvas.addEventListener("webglcontextlost", lost);
    canvas.addEventListener("webglcontextrestored", restored);
    this.unlisten = () => {
      canvas.removeEventListener("webglcontextlost", lost);
      canvas.removeEventListener("webglcontextrestored", restored);
    };
  }

  private lose(): void {
    if (this.disposed) return;
    this.generation += 1;
    this.awaitReturn(0);
    if (this.lost) return;
    this.lost = true;
    for (const callback of [...this.whenLost]) callback();
  }

  /** Some browsers never give a context back: after a while we open another, a few times. */
  private awaitReturn(attempt: number): void {
    clearTimeout(this.retry);
    const wait = RETRY_MS[attempt];
    if (wait === undefined) return;
    this.retry = setTimeout(() => {
      if (!this.gl.isContextLost()) return;
      try {
        void this.restore(openContext());
      } catch {
        this.awaitReturn(attempt + 1); // DeviceUnavailable: the state stays "lost"
      }
    }, wait);
  }

  private async restore(opened: Opened): Promise<void> {
    if (this.disposed) return;
    clearTimeout(this.retry);
    this.adopt(opened);
    const { generation } = this;
    await Promise.allSettled([...this.rebuilds].map((rebuild) => rebuild()));
    if (this.disposed || this.generation !== generation) return; // lost again meanwhile
    this.lost = false;
    for (const callback of [...this.whenRestored]) callback();
  }
}
