// The same row-major elements in another frame or block.
vec4 pixel(ivec4 at) {
  vec4 v = vec4(0.0);
  int y = min(at.z, u.o.frame.z - 1), x = min(at.w, u.o.frame.w - 1), n = min(at.x, u.o.frame.x - 1);
  for (int k = 0; k < 4; k++) {
    int c = min(at.y * 4 + k, u.o.frame.y - 1);
    float e = flat_element(x0, u.x[0], ((n * u.o.frame.y + c) * u.o.frame.z + y) * u.o.frame.w + x);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
}
