// An input's elements in row-major order, four a texel, from a resampled picture: grey, RGB or RGBA from 0 to 1, the same
// for each example. What lies outside of the picture is black.
// n[0]: channels, height and width of the input, texels in a row of the result; n[1]: the picture's place and size in it.
precision highp float;
precision highp int;
precision highp sampler2DArray;
uniform sampler2DArray source;
uniform ivec4 n[2];
layout(location = 0) out vec4 o0;

// The prelude's.
int quotient(int a, int b) {
  int q = int(float(a) / float(b));
  return q + int(floor((float(a - q * b) + 0.5) / float(b)));
}

float element(ivec3 at) {
  ivec2 p = at.xy - n[1].xy;
  if (any(lessThan(p, ivec2(0))) || any(greaterThanEqual(p, n[1].zw))) return at.z == 3 ? 1.0 : 0.0;
  ivec4 v = ivec4(textureLod(source, vec3((vec2(p) + 0.5) / vec2(n[1].zw), 0.0), 0.0) * 255.0 + 0.5);
  int k = v.a;
  if (n[0].x == 1) k = (19595 * v.r + 38470 * v.g + 7471 * v.b + 0x8000) >> 16; // Pillow's mode L
  else if (at.z < 3) {
    k = at.z == 0 ? v.r : at.z == 1 ? v.g : v.b;
    if (n[0].x == 4 && v.a > 0) k = min(quotient(255 * k, v.a), 255);
  }
  return float(k) / 255.0;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int index = (p.y * n[0].w + p.x) * 4;
  int row = quotient(index, n[0].z), plane = quotient(row, n[0].y);
  ivec3 at = ivec3(index - row * n[0].z, row - plane * n[0].y, plane - quotient(plane, n[0].x) * n[0].x);
  vec4 v = vec4(0.0);
  for (int k = 0; k < 4; k++) {
    float e = element(at);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
    at.x += 1;
    if (at.x == n[0].z) at.xy = ivec2(0, at.y + 1);
    if (at.y == n[0].y) at.yz = ivec2(0, at.z + 1);
    if (at.z == n[0].x) at.z = 0;
  }
  o0 = v;
}
