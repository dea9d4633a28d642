// Compiles each shader once per page, without blocking the page.
import vertexText from "../../../src/nbglcnn/ops/shaders/vertex.glsl";
import { shaderMessage } from "../plan/error_text.ts";
import type { ProgramSource } from "../plan/program_source.ts";
import { isPageHidden, waitForPoll } from "../plan/run_slices.ts";
import { ContextLostError, type LiveObjectCounts, ShaderError } from "../plan/runtime.ts";
import type { GlState } from "./gl_state.ts";

const VERSION_LINE = "#version 300 es\n";
/** The binding point of the prelude's uniform block. */
export const PASS_BINDING = 0;
/** Without KHR_parallel_shader_compile, a fence reports when a program is ready; two in flight keep the driver busy. */
const MAX_PROGRAMS_IN_FLIGHT = 2;
/** The time to finish a program depends on the driver: after this many milliseconds the page can draw a frame. */
const MAX_BLOCKING_MS = 16;

/** A linked program, shared by all users of the same text. */
export interface LinkedProgram {
  readonly key: string;
  readonly name: string;
  readonly program: WebGLProgram;
  /** False until the first draw, which builds the program's pipeline. */
  hasDrawn: boolean;
}

interface ProgramEntry extends LinkedProgram {
  readonly source: string;
  readonly errorLinesSource: string | undefined;
  readonly samplers: readonly string[];
  readonly fragment: WebGLShader;
  /** The program's own vertex shader and its text, if it has one. */
  readonly vertexShaderAndSource: readonly [WebGLShader, string] | undefined;
  fence: WebGLSync | null;
  refCount: number;
  ready: Promise<void>;
}

export class ProgramCache {
  /** Use texture() instead of textureLod() for reads: see the prelude. Set before anything is compiled. */
  usesTextureCall = false;
  private readonly gl: WebGL2RenderingContext;
  private readonly state: GlState;
  private readonly liveObjects: LiveObjectCounts;
  private readonly waitForIdle: () => Promise<void>;
  private readonly parallelCompileExtension: KHR_parallel_shader_compile | null;
  private readonly entries = new Map<string, ProgramEntry>();
  private defaultVertexShader: WebGLShader | undefined;

  /** `waitForIdle` resolves when the GPU is idle. */
  constructor(
    gl: WebGL2RenderingContext,
    state: GlState,
    liveObjects: LiveObjectCounts,
    waitForIdle: () => Promise<void>,
  ) {
    this.gl = gl;
    this.waitForIdle = waitForIdle;
    this.state = state;
    this.liveObjects = liveObjects;
    this.parallelCompileExtension = gl.getExtension("KHR_parallel_shader_compile");
  }

  /** Linked programs in the order of `sources`; `release` undoes each call. */
  async acquire(
    sources: readonly ProgramSource[],
    onProgress: (done: number) => void = () => undefined,
  ): Promise<LinkedProgram[]> {
    const fresh: ProgramEntry[] = [];
    const entries = sources.map((source) => {
      const key = this.keyOf(source);
      let entry = this.entries.get(key);
      if (entry === undefined) {
        entry = this.createEntry(key, source);
        this.entries.set(key, entry);
        fresh.push(entry);
      }
      entry.refCount += 1;
      return entry;
    });
    let done = entries.filter((entry) => !fresh.includes(entry)).length;
    const building = this.build(fresh, () => onProgress(++done));
    for (const entry of fresh) {
      entry.ready = building;
      entry.ready.catch(() => undefined); // awaited below, by each caller
    }
    try {
      await Promise.all(entries.map((entry) => entry.ready));
    } catch (error) {
      this.release(entries);
      throw error;
    }
    onProgress(entries.length);
    return entries;
  }

  release(linked: readonly LinkedProgram[]): void {
    for (const { key, program } of linked) {
      const entry = this.entries.get(key);
      if (entry?.program !== program) continue; // of a lost context
      entry.refCount -= 1;
      if (entry.refCount > 0) continue;
      this.entries.delete(key);
      this.gl.deleteSync(entry.fence); // unused if another program's failure ended the build
      this.gl.deleteShader(entry.fragment);
      if (entry.vertexShaderAndSource !== undefined)
        this.gl.deleteShader(entry.vertexShaderAndSource[0]);
      this.gl.deleteProgram(entry.program);
      this.liveObjects.programs -= 1;
    }
    if (this.entries.size === 0 && this.defaultVertexShader !== undefined) {
      this.gl.deleteShader(this.defaultVertexShader);
      this.defaultVertexShader = undefined;
    }
  }

  private keyOf({ source, samplers, vertexSource = "" }: ProgramSource): string {
    return `${samplers.join()}\n${vertexSource}\n${this.fullSource(source)}`;
  }

  private fullSource(source: string): string {
    return `${VERSION_LINE}${this.usesTextureCall ? "#define READ_TEXTURE\n" : ""}${source}`;
  }

  private createEntry(
    key: string,
    { name, source, samplers, vertexSource, errorLinesSource }: ProgramSource,
  ): ProgramEntry {
    const { gl } = this;
    this.liveObjects.programs += 1;
    return {
      key,
      name,
      samplers,
      errorLinesSource,
      source: this.fullSource(source),
      program: gl.createProgram(),
      fragment: requireCreated(gl.createShader(gl.FRAGMENT_SHADER)),
      vertexShaderAndSource:
        vertexSource === undefined
          ? undefined
          : [requireCreated(gl.createShader(gl.VERTEX_SHADER)), this.fullSource(vertexSource)],
      fence: null,
      hasDrawn: false,
      refCount: 0,
      ready: Promise.resolve(),
    };
  }

  /** Compile all, then link all, then check each when the GPU has finished. */
  private async build(entries: readonly ProgramEntry[], onDone: () => void): Promise<void> {
    const width = this.parallelCompileExtension === null ? MAX_PROGRAMS_IN_FLIGHT : entries.length;
    let submitted = 0;
    for (const [k, entry] of entries.entries()) {
      if (submitted < Math.min(k + width, entries.length)) {
        const batch = entries.slice(submitted, k + width);
        this.submit(batch);
        submitted += batch.length;
      }
      while (!isPageHidden() && !this.isBuilt(entry)) await waitForPoll(true);
      onDone();
    }
    if (entries.length === 0) return;
    let since = Number.NEGATIVE_INFINITY;
    for (const entry of entries) {
      if (performance.now() - since > MAX_BLOCKING_MS) {
        // The link status is only available after all pending GPU work.
        if (!isPageHidden()) await this.waitForIdle();
        since = performance.now();
      }
      this.checkLinked(entry);
    }
  }

  private submit(entries: readonly ProgramEntry[]): void {
    const { gl } = this;
    if (this.defaultVertexShader === undefined) {
      this.defaultVertexShader = requireCreated(gl.createShader(gl.VERTEX_SHADER));
      gl.shaderSource(this.defaultVertexShader, VERSION_LINE + vertexText);
      gl.compileShader(this.defaultVertexShader);
    }
    for (const entry of entries) {
      gl.shaderSource(entry.fragment, entry.source);
      gl.compileShader(entry.fragment);
      if (entry.vertexShaderAndSource === undefined) continue;
      gl.shaderSource(...entry.vertexShaderAndSource);
      gl.compileShader(entry.vertexShaderAndSource[0]);
    }
    for (const entry of entries) {
      gl.attachShader(entry.program, entry.vertexShaderAndSource?.[0] ?? this.defaultVertexShader);
      gl.attachShader(entry.program, entry.fragment);
      gl.linkProgram(entry.program);
      if (this.parallelCompileExtension === null) entry.fence = this.createFence();
    }
    gl.flush();
    this.state.workCount += 1;
  }

  private createFence(): WebGLSync | null {
    const { gl } = this;
    return gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
  }

  private isBuilt(entry: ProgramEntry): boolean {
    const { gl, parallelCompileExtension } = this;
    if (parallelCompileExtension === null || gl.isContextLost())
      return this.isSignaled(entry.fence);
    return gl.getProgramParameter(entry.program, parallelCompileExtension.COMPLETION_STATUS_KHR);
  }

  private isSignaled(fence: WebGLSync | null): boolean {
    const { gl } = this;
    if (fence === null || gl.isContextLost()) return true;
    return gl.getSyncParameter(fence, gl.SYNC_STATUS) === gl.SIGNALED;
  }

  private checkLinked(entry: ProgramEntry): void {
    const { gl } = this;
    const linked = gl.getProgramParameter(entry.program, gl.LINK_STATUS);
    if (gl.isContextLost())
      throw new ContextLostError("the graphics context was lost while compiling");
    gl.deleteSync(entry.fence);
    entry.fence = null;
    if (!linked) {
      const [vertex, vertexSource = ""] = entry.vertexShaderAndSource ?? [];
      const vertexLog = vertex && gl.getShaderInfoLog(vertex);
      if (vertexLog) throw new ShaderError(shaderMessage(entry.name, vertexLog, vertexSource));
      const log = gl.getShaderInfoLog(entry.fragment) || gl.getProgramInfoLog(entry.program) || "";
      throw new ShaderError(shaderMessage(entry.name, log, entry.errorLinesSource ?? entry.source));
    }
    this.state.useProgram(entry.program);
    for (const [unit, name] of entry.samplers.entries()) {
      gl.uniform1i(gl.getUniformLocation(entry.program, name), unit);
    }
  }
}

function requireCreated<T>(object: T | null): T {
  if (object === null) throw new ContextLostError();
  return object;
}
