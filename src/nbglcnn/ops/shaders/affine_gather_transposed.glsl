// As affine_gather.glsl where the pixels of a block of four in a line are four input channels, one input texel, and the
// lanes of an output texel lie in four of these: four fetches serve 16 elements.
vec4 source(ivec4 first, int c) {
  ivec4 p = first + u_steps(1) * c;
  return texel(x0, u.x[0], ivec4(p.x, p.y >> 2, p.zw));
}

void main() {
  ivec4 at = origin();
  if (at.x < 0) {
    o0 = o1 = o2 = o3 = vec4(0.0);
    return;
  }
  ivec2 part = ivec2(over(at.x, u_inner.x), over(4 * at.y, u_inner.y));
  int c = 4 * at.y - part.y * u_inner.y;
  ivec4 first = u_first + u_steps(0) * (at.x - part.x * u_inner.x) + u_steps(2) * at.z + u_steps(3) * at.w
              + u_steps(4) * part.x + u_steps(5) * part.y;
  ivec4 lanes = min(c + ivec4(0, 1, 2, 3), u.o.nchw.y - 1 - part.y * u_inner.y);
  mat4 m = transpose(mat4(source(first, lanes.x), source(first, lanes.y), source(first, lanes.z),
                          source(first, lanes.w)));
  o0 = keep(m[0], at.y), o1 = keep(m[1], at.y), o2 = keep(m[2], at.y), o3 = keep(m[3], at.y);
}
