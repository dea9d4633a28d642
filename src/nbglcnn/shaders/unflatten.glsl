// A tensor from its elements in row-major order, four a texel; i[0].x: width of the staging texture in texels.
vec4 pixel(ivec4 at) {
  vec4 v = vec4(0.0);
  for (int k = 0; k < 4; k++) {
    int c = min(at.y * 4 + k, u.o.frame.y - 1);
    // Pixels of a block that lie outside the map repeat its edge: nobody reads them, but the address must exist.
    int y = min(at.z, u.o.frame.z - 1), x = min(at.w, u.o.frame.w - 1), n = min(at.x, u.o.frame.x - 1);
    int index = ((n * u.o.frame.y + c) * u.o.frame.z + y) * u.o.frame.w + x;
    int texel = index >> 2, line = quotient(texel, u.i[0].x);
    float e = lane(fetch(x0, ivec3(texel - line * u.i[0].x, line, 0)), index & 3);
    if (k == 0) v.x = e; else if (k == 1) v.y = e; else if (k == 2) v.z = e; else v.w = e;
  }
  return v;
}
