// The same row-major elements in another nchw or block.
vec4 pixel(ivec4 at) {
  vec4 v = vec4(0.0);
  int y = min(at.z, u.o.nchw.z - 1), x = min(at.w, u.o.nchw.w - 1), n = min(at.x, u.o.nchw.x - 1);
  for (int k = 0; k < 4; k++) {
    int c = min(at.y * 4 + k, u.o.nchw.y - 1);
    float e = flat_element(x0, u.x[0], ((n * u.o.nchw.y + c) * u.o.nchw.z + y) * u.o.nchw.w + x);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
}
