// What every shader of a Plan knows: precision, how to read a texture, and where a tensor's elements lie.
// nbglcnn/layout.py is the same layout for numpy; a test holds the two together.

// Stated for every sampler type: the default lowp costs 4e-3 on llvmpipe and nothing on SwiftShader.
precision highp float;
precision highp int;
precision highp sampler2DArray;

// Reads in inner loops go through this macro, at float coordinates: texelFetch costs 1.3 to 1.9 times as much
// here, because WebGL makes it check its bounds. The runtime defines READ_TEXTURE where texture() is faster yet.
#ifdef READ_TEXTURE
#define FETCH(s, p) texture(s, p)
#else
#define FETCH(s, p) textureLod(s, p, 0.0)
#endif

// The words of layout.py's Layout, in its order.
struct Layout {
  ivec4 nchw;  // n, c, h, w
  ivec4 tile;   // width and height of a tile in texels, tiles in a row, channel groups
  ivec4 block;  // images, rows and columns spread over the layers; number of tiles
  ivec4 phase;  // row and column phases; width and height of one phase's area
};

layout(std140) uniform Pass {
  Layout o;     // of the output
  Layout x[4];  // of the inputs x0..x3
  ivec4 i[8];   // the kernel's own numbers
  vec4 f[4];
} u;

// a / b of numbers from 0 to 2^20: processors without an instruction for it take an integer division a lane at a
// time, graphics cards emulate it. Half a step away from a whole quotient no rounding of the division can matter.
#ifndef WRAPPED
int over(int a, int b) { return int((float(a) + 0.5) / float(b)); }
ivec2 over(ivec2 a, ivec2 b) { return ivec2((vec2(a) + 0.5) / vec2(b)); }
#endif

// The same for all a >= 0: what the first division misses is few steps, which the second one counts.
int quotient(int a, int b) {
  int q = int(float(a) / float(b));
  return q + int(floor((float(a - q * b) + 0.5) / float(b)));
}

#ifdef WRAPPED
int over(int a, int b) { return quotient(a, b); }
ivec2 over(ivec2 a, ivec2 b) { return ivec2(quotient(a.x, b.x), quotient(a.y, b.y)); }
#endif

// Column, row and layer of the texel that holds channels 4g..4g+3 of image n at (y, x).
ivec3 address(Layout l, int n, int g, int y, int x) {
  ivec2 q = over(ivec2(x, y), l.phase.yx), p = over(q, l.block.zy);
  int images = over(n, l.block.x), tile = images * l.tile.w + g, row = quotient(tile, l.tile.z);
  return ivec3(
    ivec2(tile - row * l.tile.z, row) * l.tile.xy + p + (ivec2(x, y) - q * l.phase.yx) * l.phase.zw,
    ((n - images * l.block.x) * l.block.y + q.y - p.y * l.block.y) * l.block.z + q.x - p.x * l.block.z);
}

// The same for one coordinate, row or column, of a loop that goes over many tiles: its texel in the tile, and its
// part of the layer number, `weight` a step.
vec2 place(int r, int phases, int area, int pixels, int weight) {
  int q = over(r, phases), p = over(q, pixels);
  return vec2(float((r - q * phases) * area + p), float((q - p * pixels) * weight));
}

vec4 fetch(sampler2DArray s, ivec3 at) {
  return FETCH(s, vec3((vec2(at.xy) + 0.5) / vec2(textureSize(s, 0).xy), float(at.z)));
}

// What `address`, `place` and `corner` find is where a texel would lie if textures had no end. Kernels read there with
// LIES, and at float coordinates with SAMPLE, which they count in UNITs.
#ifdef WRAPPED
// Of passes with a tensor that is longer than a texture may be, which is cut into strips: what a texture's width has no
// room for follows below, or what its height has none for to the right (layout.py).
ivec3 in_strips(sampler2DArray s, Layout l, ivec3 at) {
  ivec2 size = textureSize(s, 0).xy, all = l.phase.yx * l.phase.zw;
  if (all.x > size.x) {
    int k = quotient(at.x, size.x);
    return at + ivec3(-k * size.x, k * all.y, 0);
  }
  if (all.y > size.y) {
    int k = quotient(at.y, size.y);
    return at + ivec3(k * all.x, -k * size.y, 0);
  }
  return at;
}
#define LIES(s, l, at) in_strips(s, l, at)
#define UNIT(s) vec2(1.0)
#define SAMPLE(s, l, p) fetch(s, in_strips(s, l, ivec3(p)))
#else
#define LIES(s, l, at) at
#define UNIT(s) 1.0 / vec2(textureSize(s, 0).xy)
#define SAMPLE(s, l, p) FETCH(s, p)
#endif

// Four channels of one pixel; at = (n, g, y, x).
vec4 texel(sampler2DArray s, Layout l, ivec4 at) {
  return fetch(s, LIES(s, l, address(l, at.x, at.y, at.z, at.w)));
}

// One lane by number; a multiplication with a 0/1 vector would turn a NaN beside it into the result.
float lane(vec4 v, int k) {
  return k < 2 ? (k == 0 ? v.x : v.y) : (k == 2 ? v.z : v.w);
}

// One element; at = (n, c, y, x).
float element(sampler2DArray s, Layout l, ivec4 at) {
  return lane(texel(s, l, ivec4(at.x, at.y >> 2, at.z, at.w)), at.y & 3);
}

// Where element number `index` in row-major order of an nchw is: (n, c, y, x).
ivec4 unravel(ivec4 nchw, int index) {
  int row = quotient(index, nchw.w), plane = quotient(row, nchw.z), image = quotient(plane, nchw.y);
  return ivec4(image, plane - image * nchw.y, row - plane * nchw.z, index - row * nchw.w);
}

float flat_element(sampler2DArray s, Layout l, int index) {
  return element(s, l, unravel(l.nchw, index));
}

#ifdef LAYERS
// Of passes that write a tensor. What is known of its layout when the Plan is made: WHOLE says that its channels
// are a multiple of four and its tiles fill the texture, PHASED that it has phases, MANY that a tile's number may be
// too large for `over`.

// Where tile (image n, group g) begins in the texture, and its layer part; `place` says what to add.
vec3 corner(Layout l, int n, int g) {
  int images = over(n, l.block.x), tile = images * l.tile.w + g, line = quotient(tile, l.tile.z);
  return vec3(vec2(tile - line * l.tile.z, line) * vec2(l.tile.xy) + 0.5,
              float((n - images * l.block.x) * l.block.y * l.block.z));
}

// Lanes past the last channel hold 0 in every texture, so that no kernel can meet a stray Inf there.
vec4 keep(vec4 v, int g) {
#if WHOLE
  return v;
#else
  int left = u.o.nchw.y - 4 * g;
  return left >= 4 ? v : vec4(v.x, left > 1 ? v.y : 0.0, left > 2 ? v.z : 0.0, 0.0);
#endif
}

// First pixel of this fragment's block in the output: (n, g, y, x); n = -1 past the last tile.
// Its further pixels are (n + dn, g, y + dy * phase rows, x + dx * phase columns).
ivec4 origin() {
  ivec2 p = ivec2(gl_FragCoord.xy);
#ifdef WRAPPED
  // Out of the strip; WRAPPED is the device's longest side, from which strips of equal length follow.
  ivec2 all = u.o.phase.yx * u.o.phase.zw, strips = (all + (WRAPPED - 1)) / WRAPPED;
  ivec2 k = over(p, all);
  p += ivec2(k.y, k.x) * over(all + strips - 1, strips) - k * all;
  if (any(greaterThanEqual(p, all))) return ivec4(-1);
#endif
#if PHASED
  ivec2 phase = over(p, u.o.phase.zw);
  p -= phase * u.o.phase.zw;
#endif
  ivec2 t = over(p, u.o.tile.xy);
  p = (p - t * u.o.tile.xy) * ivec2(BX, BY);
#if PHASED
  p = p * u.o.phase.yx + phase;
#endif
  int tile = t.y * u.o.tile.z + t.x;
#if MANY
  int image = quotient(tile, u.o.tile.w);
#else
  int image = over(tile, u.o.tile.w);
#endif
  ivec4 at = ivec4(image * BN, tile - image * u.o.tile.w, p.yx);
#if WHOLE
  return at;
#else
  return tile < u.o.block.w ? at : ivec4(-1);
#endif
}
#endif
