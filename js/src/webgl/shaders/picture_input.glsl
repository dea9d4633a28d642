// An input's elements in row-major order, four a texel, from a resampled picture: grey, RGB or RGBA, the same for each
// example. What lies outside of the picture is black.
// n[0]: channels, height and width of the input, texels in a row of the result; n[1]: the picture's place and size in it;
// n[2]: 1 where the channels are last, and the number of white.
precision highp float;
precision highp int;
precision highp sampler2DArray;
uniform sampler2DArray source;
uniform ivec4 n[3];
layout(location = 0) out vec4 o0;

// The prelude's.
int quotient(int a, int b) {
  int q = int(float(a) / float(b));
  return q + int(floor((float(a - q * b) + 0.5) / float(b)));
}

// x, y and channel.
float element(ivec3 at) {
  ivec2 p = at.xy - n[1].xy;
  if (any(lessThan(p, ivec2(0))) || any(greaterThanEqual(p, n[1].zw))) return at.z == 3 ? float(n[2].y) : 0.0;
  ivec4 v = ivec4(textureLod(source, vec3((vec2(p) + 0.5) / vec2(n[1].zw), 0.0), 0.0) * 255.0 + 0.5);
  int k = v.a;
  if (n[0].x == 1) k = (19595 * v.r + 38470 * v.g + 7471 * v.b + 0x8000) >> 16; // Pillow's mode L
  else if (at.z < 3) {
    k = at.z == 0 ? v.r : at.z == 1 ? v.g : v.b;
    if (n[0].x == 4 && v.a > 0) k = min(quotient(255 * k, v.a), 255);
  }
  return n[2].y == 255 ? float(k) : float(k) / 255.0;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int index = (p.y * n[0].w + p.x) * 4;
  bool last = n[2].x == 1;
  ivec3 size = last ? n[0].xzy : n[0].zyx;
  int row = quotient(index, size.x), plane = quotient(row, size.y);
  ivec3 at = ivec3(index - row * size.x, row - plane * size.y, plane - quotient(plane, size.z) * size.z);
  vec4 v = vec4(0.0);
  for (int k = 0; k < 4; k++) {
    float e = element(last ? at.yzx : at);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
    at.x += 1;
    if (at.x == size.x) at.xy = ivec2(0, at.y + 1);
    if (at.y == size.y) at.yz = ivec2(0, at.z + 1);
    if (at.z == size.z) at.z = 0;
  }
  o0 = v;
}
