// Slices of x0 chosen by indices. An output element is (outer, row, inner): row says where its slice starts.
// i[0] inner, rows per outer, elements of x0 per outer, how far the indices move per outer;
// i[1].x indices per row, i[2 + j] stride and length of the axis that index j of a row chooses from.
// CONSTANT: w0 holds the start of each row, four a texel; else x1 holds the indices.
#if CONSTANT
int start(int row) {
  int t = row >> 2;
  return int(lane(fetch(w0, ivec3(t & 1023, t >> 10, 0)), row & 3));
}
#else
// Negative where an index is outside of its axis: there is nothing to choose.
int start(int row) {
  int sum = 0;
  bool outside = false;
  for (int j = 0; j < u.i[1].x; j++) {
    int place = int(flat_element(x1, u.x[1], row * u.i[1].x + j)), length = u.i[2 + j].y;
    outside = outside || place < -length || place >= length;
    sum += clamp(place < 0 ? place + length : place, 0, length - 1) * u.i[2 + j].x;
  }
  return outside ? -1 : sum;
}
#endif

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int slice = e / u.i[0].x, outer = slice / u.i[0].y, row = slice - outer * u.i[0].y;
  int first = start(outer * u.i[0].w + row);
  float chosen = flat_element(x0, u.x[0], outer * u.i[0].z + max(first, 0) + e - slice * u.i[0].x);
  return first < 0 ? uintBitsToFloat(0x7fc00000u) : chosen;
}
