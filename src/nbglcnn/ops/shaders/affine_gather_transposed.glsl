// As affine_gather.glsl where the pixels of a block of four in a line are four input channels, one input texel, and the
// lanes of an output texel lie in four of these: four fetches serve 16 elements.
vec4 source(ivec4 at, int k) {
  int c = min(at.y * 4 + k, u.o.nchw.y - 1);
  ivec4 p = u_first + u_steps(0) * at.x + u_steps(1) * c + u_steps(2) * at.z + u_steps(3) * at.w;
  return texel(x0, u.x[0], ivec4(p.x, p.y >> 2, p.zw));
}

void main() {
  ivec4 at = origin();
  if (at.x < 0) {
    o0 = o1 = o2 = o3 = vec4(0.0);
    return;
  }
  mat4 m = transpose(mat4(source(at, 0), source(at, 1), source(at, 2), source(at, 3)));
  o0 = keep(m[0], at.y), o1 = keep(m[1], at.y), o2 = keep(m[2], at.y), o3 = keep(m[3], at.y);
}
