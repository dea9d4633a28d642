// Opens a WebGL 2 context and probes its capabilities.
import { type Capabilities, DeviceUnavailable, type Precision } from "../plan/runtime.ts";

export type Canvas = OffscreenCanvas | HTMLCanvasElement;

export interface OpenedContext {
  readonly canvas: Canvas;
  readonly gl: WebGL2RenderingContext;
  /** Precision of the floats that the context can render. */
  readonly precision: Precision;
}

/** Renderable float formats, best first, with the extensions any of which enables them. */
export const FLOAT_FORMATS = [
  {
    precision: "float32",
    extensions: ["EXT_color_buffer_float"],
    format: "RGBA32F",
    probe: Math.fround(1.0000001), // needs all bits: a device that stores less returns 1
  },
  {
    precision: "float16",
    extensions: ["EXT_color_buffer_half_float", "EXT_color_buffer_float"],
    format: "RGBA16F",
    probe: 1 + 2 ** -10,
  },
] as const;
const SOFTWARE_RENDERERS = /swiftshader|llvmpipe|softpipe|software|basic render/i;
/** The number of targets that WebGL 2 guarantees, and the most RGBA32F targets on Apple's GPUs. */
const RENDER_TARGET_COUNT = 4;

const ATTRIBUTES: WebGLContextAttributes = {
  alpha: true,
  antialias: false,
  depth: false,
  stencil: false,
  preserveDrawingBuffer: false,
};

/** Open a context on its own canvas; throws DeviceUnavailable. */
export function openContext(): OpenedContext {
  const opened = createContext();
  if (opened === undefined) {
    throw new DeviceUnavailable(
      "no-webgl2",
      "This browser offers no WebGL 2. Turn on hardware acceleration or use another browser.",
      "getContext('webgl2') returned null",
    );
  }
  const { gl } = opened;
  if (gl.isContextLost()) throw lostContextError();
  const faults: string[] = [];
  for (const floats of FLOAT_FORMATS) {
    const fault = testFloatFormat(gl, floats);
    if (fault === undefined) return { ...opened, precision: floats.precision };
    faults.push(fault);
  }
  if (gl.isContextLost()) throw lostContextError();
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  throw new DeviceUnavailable(
    "no-float-textures",
    "This browser's WebGL 2 supports neither float32 nor float16 values, which every layer needs.",
    faults.join("; "),
  );
}

/** The error for a context that is lost on creation: its capabilities are wrong, so it cannot be used. */
export function lostContextError(): DeviceUnavailable {
  return new DeviceUnavailable(
    "lost-at-birth",
    "The browser returned a lost graphics context. Restart the browser.",
    "isContextLost() while the context was opened",
  );
}

function createContext(): Omit<OpenedContext, "precision"> | undefined {
  const canvases = [
    () => (typeof OffscreenCanvas === "undefined" ? undefined : new OffscreenCanvas(1, 1)),
    () => document.createElement("canvas"),
  ];
  for (const make of canvases) {
    const canvas = make();
    // Safari before 17 has an OffscreenCanvas without WebGL.
    const gl = canvas?.getContext("webgl2", ATTRIBUTES) as
      | WebGL2RenderingContext
      | null
      | undefined;
    if (canvas && gl) return { canvas, gl };
  }
  return undefined;
}

/** Render a number into four targets and read it back; extension names alone are not reliable. */
function testFloatFormat(
  gl: WebGL2RenderingContext,
  { extensions, format, probe }: (typeof FLOAT_FORMATS)[number],
): string | undefined {
  if (extensions.every((name) => gl.getExtension(name) === null)) return `no ${extensions[0]}`;
  const texture = gl.createTexture();
  const framebuffer = gl.createFramebuffer();
  gl.bindTexture(gl.TEXTURE_2D_ARRAY, texture);
  gl.texStorage3D(gl.TEXTURE_2D_ARRAY, 1, gl[format], 1, 1, RENDER_TARGET_COUNT);
  gl.bindFramebuffer(gl.FRAMEBUFFER, framebuffer);
  const targets = Array.from({ length: RENDER_TARGET_COUNT }, (_, k) => gl.COLOR_ATTACHMENT0 + k);
  for (const [k, target] of targets.entries()) {
    gl.framebufferTextureLayer(gl.FRAMEBUFFER, target, texture, 0, k);
  }
  gl.drawBuffers(targets);
  try {
    const status = gl.checkFramebufferStatus(gl.FRAMEBUFFER);
    if (status !== gl.FRAMEBUFFER_COMPLETE) return `framebuffer status ${status} for 4 x ${format}`;
    const pixel = new Float32Array(4);
    for (const [k, target] of targets.entries()) {
      gl.clearBufferfv(gl.COLOR, k, [probe, -probe, probe, probe]);
      gl.readBuffer(target);
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.FLOAT, pixel);
      if (pixel[0] !== probe || pixel[1] !== -probe) return `wrote ${probe}, read ${pixel[0]}`;
    }
    return undefined;
  } finally {
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.deleteFramebuffer(framebuffer);
    gl.deleteTexture(texture);
  }
}

export function readCapabilities({ gl, precision }: OpenedContext): Capabilities {
  const names = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(names?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER));
  return {
    renderer,
    vendor: String(gl.getParameter(names?.UNMASKED_VENDOR_WEBGL ?? gl.VENDOR)),
    target: {
      max_texture_size: gl.getParameter(gl.MAX_TEXTURE_SIZE),
      max_array_layers: gl.getParameter(gl.MAX_ARRAY_TEXTURE_LAYERS),
      max_draw_buffers: gl.getParameter(gl.MAX_DRAW_BUFFERS),
      max_texture_units: gl.getParameter(gl.MAX_TEXTURE_IMAGE_UNITS),
      float32_render: precision === "float32",
      fast_kernels: true, // until Python finds them to be wrong on this device
    },
    hasTimerQuery: gl.getExtension("EXT_disjoint_timer_query_webgl2") !== null,
    hasParallelCompile: gl.getExtension("KHR_parallel_shader_compile") !== null,
    precision,
    isSoftware: SOFTWARE_RENDERERS.test(renderer),
  };
}
