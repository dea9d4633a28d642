// Convolution, transposed convolution and matrix product: one loop over taps and input channel groups.
//
// x0: input, w0: weights as weights.conv_texture packs them, x1: bias, x2: residual to add.
// A weight column (4 texels) serves all LAYERS pixels of the block, an input texel 16 MACs.
// u_inputs and u_outputs: channel groups of four of one convolution group; u_taps; u_lines: weight rows of one column
// part. This pass adds up the input channel groups from u_begin to before u_end.

const int COLUMN_GROUPS = 1024;  // as codegen/weights.py

#if TRANSPOSED
// Output pixels of a block are `stride` apart, so their inputs are neighbours; t is what the tap divides.
// FAR makes t positive: GLSL leaves the remainder of a negative number undefined and truncates the quotient.
const int FAR = 65536;
#define SOURCE(t, stride, d) ((t) / (stride) - FAR + (d))
#else
#define SOURCE(t, stride, d) ((t) + (stride) * (d))
#endif

#if DEPTHWISE
#define PRODUCT(v) (q0 * v)
#else
#define PRODUCT(v) (q0 * v.x + q1 * v.y + q2 * v.z + q3 * v.w)
#endif

// The taps from x to y - 1 are those that meet the map with at least one pixel of a block: `begin` is where
// the kernel lies, `size` the map's, `block` the pixels. A large kernel has few of them on a small map.
ivec2 taps(int begin, int size, int kernel, int stride, int dilation, int block) {
#if TRANSPOSED
  int low = begin - (size - 1) * stride, high = begin + (block - 1) * stride;
#else
  int low = -begin - (block - 1) * stride, high = size - 1 - begin;
#endif
  return ivec2(low > 0 ? (low + dilation - 1) / dilation : 0, high < 0 ? 0 : min(kernel, high / dilation + 1));
}

#if TRANSPOSED
#define BEGIN(p, stride, padding) ((p) + (padding))
#else
#define BEGIN(p, stride, padding) ((p) * (stride) - (padding))
#endif

void main() {
  ivec4 at = origin();
  vec4 a0 = vec4(0.0);
#if LAYERS > 1
  vec4 a1 = vec4(0.0);
#endif
#if LAYERS > 2
  vec4 a2 = vec4(0.0), a3 = vec4(0.0);
#endif
  if (at.x >= 0) {
    Layout l = u.x[0];
    vec2 xs = UNIT(x0), ws = 1.0 / vec2(textureSize(w0, 0).xy);
    int groups = u_inputs;
    int images = over(at.x, l.block.x), first = images * l.tile.w + over(at.y, u_outputs) * groups;
#if SHEETS
    int sheet_groups = u_lines / u_taps, weight_row = at.y % sheet_groups * u_taps;
    float sheet = float(at.y / sheet_groups);
#else
    int weight_row = at.y * u_taps;
    const float sheet = 0.0;
#endif
    ivec2 high = taps(BEGIN(ROW(at.z), u_stride.x, u_padding.x), HEIGHT, u_kernel.x, u_stride.x, u_dilation.x, BY);
    ivec2 wide = taps(BEGIN(at.w, u_stride.y, u_padding.y), l.nchw.w, u_kernel.y, u_stride.y, u_dilation.y, BX);
    float image = float((at.x - images * l.block.x) * l.block.y * l.block.z);
#if DEPTH
    for (int kz = 0; kz < u_deep.x; kz++) {
#if TRANSPOSED
    int tz = SLICE(at.z) + u_deep.w - kz * u_deep.z + FAR * u_deep.y;
    if (tz % u_deep.y != 0) continue;
#else
    int tz = SLICE(at.z) * u_deep.y - u_deep.w + kz * u_deep.z;
#endif
    int slice = SOURCE(tz, u_deep.y, 0);
    if (slice < 0 || slice >= u_slices) continue;
    int top = slice * HEIGHT, above = kz * u_kernel.x * u_kernel.y;
#else
    const int top = 0, above = 0;
#endif
    for (int ky = high.x; ky < high.y; ky++) {
#if TRANSPOSED
      int ty = ROW(at.z) + u_padding.x - ky * u_dilation.x + FAR * u_stride.x;
      if (ty % u_stride.x != 0) continue;
#else
      int ty = ROW(at.z) * u_stride.x - u_padding.x + ky * u_dilation.x;
#endif
      int r0 = SOURCE(ty, u_stride.x, 0);
      bool in0 = r0 >= 0 && r0 < HEIGHT;
      vec2 row0 = place(top + clamp(r0, 0, HEIGHT - 1), l.phase.x, l.phase.w, l.block.y, l.block.z);
#if BY > 1
      int r1 = SOURCE(ty, u_stride.x, 1);
      bool in1 = r1 >= 0 && r1 < HEIGHT;
      vec2 row1 = place(top + clamp(r1, 0, HEIGHT - 1), l.phase.x, l.phase.w, l.block.y, l.block.z);
#endif
#if BY > 2
      int r2 = SOURCE(ty, u_stride.x, 2), r3 = SOURCE(ty, u_stride.x, 3);
      bool in2 = r2 >= 0 && r2 < HEIGHT, in3 = r3 >= 0 && r3 < HEIGHT;
      vec2 row2 = place(top + clamp(r2, 0, HEIGHT - 1), l.phase.x, l.phase.w, l.block.y, l.block.z);
      vec2 row3 = place(top + clamp(r3, 0, HEIGHT - 1), l.phase.x, l.phase.w, l.block.y, l.block.z);
#endif
      for (int kx = wide.x; kx < wide.y; kx++) {
#if TRANSPOSED
        int tx = at.w + u_padding.y - kx * u_dilation.y + FAR * u_stride.y;
        if (tx % u_stride.y != 0) continue;
#else
        int tx = at.w * u_stride.y - u_padding.y + kx * u_dilation.y;
#endif
        int c0 = SOURCE(tx, u_stride.y, 0);
        bool on0 = c0 >= 0 && c0 < l.nchw.w;
        vec2 col0 = place(clamp(c0, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1);
#if BX > 1
        int c1 = SOURCE(tx, u_stride.y, 1);
        bool on1 = c1 >= 0 && c1 < l.nchw.w;
        vec2 col1 = place(clamp(c1, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1);
#endif
#if BX > 2
        int c2 = SOURCE(tx, u_stride.y, 2), c3 = SOURCE(tx, u_stride.y, 3);
        bool on2 = c2 >= 0 && c2 < l.nchw.w, on3 = c3 >= 0 && c3 < l.nchw.w;
        vec2 col2 = place(clamp(c2, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1);
        vec2 col3 = place(clamp(c3, 0, l.nchw.w - 1), l.phase.y, l.phase.z, l.block.z, 1);
#endif
        // Pixel k of the block: coordinates relative to the tile, its layer, whether it exists.
#if LAYERS == 1
        vec2 p0 = vec2(col0.x, row0.x);
        float l0 = image + row0.y + col0.y;
        bool ok0 = in0 && on0;
#elif LAYERS == 2
#if BN == 2
        vec2 p0 = vec2(col0.x, row0.x), p1 = p0;
        float l0 = image + row0.y + col0.y, l1 = l0 + float(l.block.y * l.block.z);
        bool ok0 = in0 && on0, ok1 = ok0;
#elif BY == 2
        vec2 p0 = vec2(col0.x, row0.x), p1 = vec2(col0.x, row1.x);
        float l0 = image + row0.y + col0.y, l1 = image + row1.y + col0.y;
        bool ok0 = in0 && on0, ok1 = in1 && on0;
#else
        vec2 p0 = vec2(col0.x, row0.x), p1 = vec2(col1.x, row0.x);
        float l0 = image + row0.y + col0.y, l1 = image + row0.y + col1.y;
        bool ok0 = in0 && on0, ok1 = in0 && on1;
#endif
#else
#if BN == 4
        vec2 p0 = vec2(col0.x, row0.x), p1 = p0, p2 = p0, p3 = p0;
        float next = float(l.block.y * l.block.z);
        float l0 = image + row0.y + col0.y, l1 = l0 + next, l2 = l1 + next, l3 = l2 + next;
        bool ok0 = in0 && on0, ok1 = ok0, ok2 = ok0, ok3 = ok0;
#elif BY == 2
        vec2 p0 = vec2(col0.x, row0.x), p1 = vec2(col1.x, row0.x);
        vec2 p2 = vec2(col0.x, row1.x), p3 = vec2(col1.x, row1.x);
        float l0 = image + row0.y + col0.y, l1 = image + row0.y + col1.y;
        float l2 = image + row1.y + col0.y, l3 = image + row1.y + col1.y;
        bool ok0 = in0 && on0, ok1 = in0 && on1, ok2 = in1 && on0, ok3 = in1 && on1;
#elif BY == 4
        vec2 p0 = vec2(col0.x, row0.x), p1 = vec2(col0.x, row1.x);
        vec2 p2 = vec2(col0.x, row2.x), p3 = vec2(col0.x, row3.x);
        float l0 = image + row0.y + col0.y, l1 = image + row1.y + col0.y;
        float l2 = image + row2.y + col0.y, l3 = image + row3.y + col0.y;
        bool ok0 = in0 && on0, ok1 = in1 && on0, ok2 = in2 && on0, ok3 = in3 && on0;
#else
        vec2 p0 = vec2(col0.x, row0.x), p1 = vec2(col1.x, row0.x);
        vec2 p2 = vec2(col2.x, row0.x), p3 = vec2(col3.x, row0.x);
        float l0 = image + row0.y + col0.y, l1 = image + row0.y + col1.y;
        float l2 = image + row0.y + col2.y, l3 = image + row0.y + col3.y;
        bool ok0 = in0 && on0, ok1 = in0 && on1, ok2 = in0 && on2, ok3 = in0 && on3;
#endif
#endif
        p0 = (p0 + 0.5) * xs;
#if LAYERS > 1
        p1 = (p1 + 0.5) * xs;
#endif
#if LAYERS > 2
        p2 = (p2 + 0.5) * xs, p3 = (p3 + 0.5) * xs;
#endif
        // Runs of channel groups between which neither the tile row nor the weight column part changes.
        for (int g = u_begin; g < u_end;) {
          int tile = first + g, line = quotient(tile, l.tile.z), column = tile - line * l.tile.z;
          int part = g / COLUMN_GROUPS;
          int run = min(min(u_end - g, l.tile.z - column), (part + 1) * COLUMN_GROUPS - g);
          vec2 shift = vec2(column * l.tile.x, line * l.tile.y) * xs;
          float step = float(l.tile.x) * xs.x;
          vec3 q = vec3(
            (float((g - part * COLUMN_GROUPS) * 4) + 0.5) * ws.x,
            (float(part * u_lines + weight_row + above + ky * u_kernel.y + kx) + 0.5) * ws.y, sheet);
          for (int k = 0; k < run; k++) {
            vec4 q0 = FETCH(w0, q);
#if !DEPTHWISE
            vec4 q1 = FETCH(w0, vec3(q.x + ws.x, q.yz));
            vec4 q2 = FETCH(w0, vec3(q.x + 2.0 * ws.x, q.yz));
            vec4 q3 = FETCH(w0, vec3(q.x + 3.0 * ws.x, q.yz));
#endif
            vec4 v = SAMPLE(x0, l, vec3(p0 + shift, l0));
            v = ok0 ? v : vec4(0.0);
            a0 += PRODUCT(v);
#if LAYERS > 1
            v = SAMPLE(x0, l, vec3(p1 + shift, l1));
            v = ok1 ? v : vec4(0.0);
            a1 += PRODUCT(v);
#endif
#if LAYERS > 2
            v = SAMPLE(x0, l, vec3(p2 + shift, l2));
            v = ok2 ? v : vec4(0.0);
            a2 += PRODUCT(v);
            v = SAMPLE(x0, l, vec3(p3 + shift, l3));
            v = ok3 ? v : vec4(0.0);
            a3 += PRODUCT(v);
#endif
            q.x += 4.0 * ws.x;
            shift.x += step;
          }
          g += run;
        }
      }
    }
#if DEPTH
    }
#endif
  }
  finish(at, a0
#if LAYERS > 1
    , a1
#endif
#if LAYERS > 2
    , a2, a3
#endif
  );
}
