// An input's elements in row-major order, four a texel, from a resampled picture: grey, RGB or RGBA, the same for each
// example. What lies outside of the picture is black.
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
  ivec2 p = at.xy - u_part.xy;
  if (any(lessThan(p, ivec2(0))) || any(greaterThanEqual(p, u_part.zw))) return at.z == 3 ? float(u_white) : 0.0;
  ivec4 v = ivec4(textureLod(source, vec3((vec2(p) + 0.5) / vec2(u_part.zw), 0.0), 0.0) * 255.0 + 0.5);
  int k = v.a;
  if (u_size.x == 1) k = (19595 * v.r + 38470 * v.g + 7471 * v.b + 0x8000) >> 16; // Pillow's mode L
  else if (at.z < 3) {
    k = at.z == 0 ? v.r : at.z == 1 ? v.g : v.b;
    if (u_size.x == 4 && v.a > 0) k = min(quotient(255 * k, v.a), 255);
  }
  return u_white == 255 ? float(k) : float(k) / 255.0;
}

void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
  int index = (p.y * u_width + p.x) * 4;
  bool last = u_channels_last == 1;
  ivec3 size = last ? u_size.xzy : u_size.zyx;
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
