// The pixel coordinates (across, down, deep) of every sample of a grid, which x0 is (grid_positions.glsl).
float along(ivec4 at, int k) {
  return flat_element(x0, u.x[0], ((at.x * u.o.nchw.z + at.z) * u.o.nchw.w + at.w) * u_axes + k);
}

vec4 pixel(ivec4 at) {
  vec4 found = vec4(0.0);
  found.x = coordinate(along(at, 0), u_size.z).x;
  found.y = coordinate(along(at, 1), u_size.y).x;
#if DEPTH
  found.z = coordinate(along(at, 2), u_size.x).x;
#endif
  return found;
}
