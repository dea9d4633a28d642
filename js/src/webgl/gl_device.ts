// The page's single WebGL 2 context: its resources, its loss and its restoration.

import {
  type Capabilities,
  ContextLostError,
  type Device,
  type LiveObjectCounts,
} from "../plan/runtime.ts";
import { GlResources } from "./gl_resources.ts";
import { GlState } from "./gl_state.ts";
import { waitForIdle } from "./gpu_clock.ts";
import {
  type Canvas,
  FLOAT_FORMATS,
  lostContextError,
  type OpenedContext,
  openContext,
  readCapabilities,
} from "./open_context.ts";
import { ProgramCache } from "./program_cache.ts";
import { readSpeedOf, type TextureReadSpeed } from "./read_speed.ts";
import { SharedTextures } from "./shared_textures.ts";

/** Milliseconds to wait for the browser to restore the context before opening a new one, per attempt. */
const RESTORE_RETRY_DELAYS_MS = [5_000, 10_000, 20_000];

/** Open the page's single WebGL 2 context; throws DeviceUnavailable. */
export function openDevice(): GlDevice {
  const device = new GlDevice(openContext());
  if (!device.gl.isContextLost()) return device;
  device.dispose();
  throw lostContextError();
}

export class GlDevice implements Device {
  readonly capabilities: Capabilities;
  readonly liveObjects: LiveObjectCounts = {
    textures: 0,
    programs: 0,
    buffers: 0,
    framebuffers: 0,
  };
  canvas!: Canvas;
  gl!: WebGL2RenderingContext;
  state!: GlState;
  programs!: ProgramCache;
  resources!: GlResources;
  sharedTextures!: SharedTextures;
  isLost = false;
  /** Counts contexts; objects of an earlier context are lost. */
  generation = 0;
  private isDisposed = false;
  private readSpeedTask: Promise<TextureReadSpeed> | undefined;
  private usesTextureCall = false;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private removeListeners: () => void = () => undefined;
  private readonly lostCallbacks = new Set<() => void>();
  private readonly restoredCallbacks = new Set<() => void>();
  private readonly rebuildCallbacks = new Set<() => Promise<void>>();

  constructor(opened: OpenedContext) {
    this.capabilities = readCapabilities(opened);
    this.attachContext(opened);
  }

  onLost(callback: () => void): () => void {
    this.lostCallbacks.add(callback);
    return () => this.lostCallbacks.delete(callback);
  }

  onRestored(callback: () => void): () => void {
    this.restoredCallbacks.add(callback);
    return () => this.restoredCallbacks.delete(callback);
  }

  /** Register a callback for a new context after a loss; returns a function that removes it. */
  onRebuild(callback: () => Promise<void>): () => void {
    this.rebuildCallbacks.add(callback);
    return () => this.rebuildCallbacks.delete(callback);
  }

  /** Throw if objects of context `generation` are no longer usable. */
  check(generation = this.generation): void {
    if (this.isDisposed || this.generation !== generation || this.gl.isContextLost()) {
      throw new ContextLostError(this.isDisposed ? "the graphics device was closed" : undefined);
    }
  }

  /** The fastest way to read textures on this device, measured once. */
  async getTextureReadSpeed(): Promise<TextureReadSpeed> {
    this.readSpeedTask ??= readSpeedOf(this);
    try {
      const reads = await this.readSpeedTask;
      this.usesTextureCall = this.programs.usesTextureCall = reads.usesTextureCall;
      return reads;
    } catch (error) {
      this.readSpeedTask = undefined;
      throw error;
    }
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    clearTimeout(this.retryTimer);
    this.removeListeners();
    this.lostCallbacks.clear();
    this.restoredCallbacks.clear();
    this.rebuildCallbacks.clear();
    // Browsers allow 16 contexts; a dropped one counts until it is garbage-collected.
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private attachContext({ canvas, gl, precision }: OpenedContext): void {
    this.canvas = canvas;
    this.gl = gl;
    Object.assign(this.liveObjects, { textures: 0, programs: 0, buffers: 0, framebuffers: 0 });
    // A new context has none of the old one's objects; extensions must be requested again too.
    const floats = FLOAT_FORMATS.flatMap(({ extensions }) => extensions);
    for (const name of [...floats, "EXT_disjoint_timer_query_webgl2"]) gl.getExtension(name);
    this.state = new GlState(gl);
    this.programs = new ProgramCache(gl, this.state, this.liveObjects, () => waitForIdle(this));
    this.programs.usesTextureCall = this.usesTextureCall;
    this.resources = new GlResources(gl, this.state, this.liveObjects, precision);
    this.sharedTextures = new SharedTextures(this.resources);
    gl.disable(gl.DITHER);
    this.removeListeners();
    const lost = (event: Event) => {
      event.preventDefault(); // otherwise the context is never restored
      this.handleLoss();
    };
    const restored = () => void this.restore({ canvas, gl, precision });
    canvas.addEventListener("webglcontextlost", lost);
    canvas.addEventListener("webglcontextrestored", restored);
    this.removeListeners = () => {
      canvas.removeEventListener("webglcontextlost", lost);
      canvas.removeEventListener("webglcontextrestored", restored);
    };
  }

  private handleLoss(): void {
    if (this.isDisposed) return;
    this.generation += 1;
    this.scheduleRetry(0);
    if (this.isLost) return;
    this.isLost = true;
    for (const callback of [...this.lostCallbacks]) callback();
  }

  /** Some browsers never restore a context: open a new one after a while, a few times. */
  private scheduleRetry(attempt: number): void {
    clearTimeout(this.retryTimer);
    const wait = RESTORE_RETRY_DELAYS_MS[attempt];
    if (wait === undefined) return;
    this.retryTimer = setTimeout(() => {
      if (!this.gl.isContextLost()) return;
      try {
        void this.restore(openContext());
      } catch {
        this.scheduleRetry(attempt + 1); // DeviceUnavailable: the state stays "lost"
      }
    }, wait);
  }

  private async restore(opened: OpenedContext): Promise<void> {
    if (this.isDisposed) return;
    clearTimeout(this.retryTimer);
    this.attachContext(opened);
    const { generation } = this;
    await Promise.allSettled([...this.rebuildCallbacks].map((rebuild) => rebuild()));
    if (this.isDisposed || this.generation !== generation) return; // lost again meanwhile
    this.isLost = false;
    for (const callback of [...this.restoredCallbacks]) callback();
  }
}
