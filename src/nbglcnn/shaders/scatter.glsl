// Elements of x0 replaced by those updates of x2 whose indices in x1 name them, or joined with them, in order.
// JOIN: 0 the last one replaces, 1 sum, 2 product, 3 the larger, 4 the smaller.
// Of the rows of indices from i[0].z to i[0].w - 1 (places along the axis, where each index names an element).
// ELEMENTS: each index names a place along one axis; i[0] number of axes, the axis; i[1 + d] length of axis d of x0,
// length of axis d of x1 and elements between two of its places.
// Else rows of indices name slices; i[0] elements of a slice; i[1] indices of a row; i[2 + k] slices between two
// places of the axis that index k names, and its length. TABLE: w0 has for each slice its row, or -1.

float joined(float a, float b) {
#if JOIN == 0
  return b;
#elif JOIN == 1
  return a + b;
#elif JOIN == 2
  return a * b;
#elif JOIN == 3
  return larger(vec4(a), vec4(b)).x;
#else
  return smaller(vec4(a), vec4(b)).x;
#endif
}

int index(int place, int length) {
  int i = int(flat_element(x1, u.x[1], place));
  return i < 0 ? i + length : i;
}

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  float v = flat_element(x0, u.x[0], e);
#if ELEMENTS
  int first = 0, own = 0, rest = e;
  for (int d = u.i[0].x - 1; d >= 0; d--) {
    ivec4 axis = u.i[1 + d];
    int next = rest / axis.x, place = rest - next * axis.x;
    rest = next;
    if (d == u.i[0].y) own = place;
    else if (place >= axis.y) return v;
    else first += place * axis.z;
  }
  ivec4 along = u.i[1 + u.i[0].y];
  for (int k = u.i[0].z; k < u.i[0].w; k++) {
    int from = first + k * along.z;
    if (index(from, along.x) == own) v = joined(v, flat_element(x2, u.x[2], from));
  }
#else
  int slice = e / u.i[0].x, inner = e - slice * u.i[0].x;
#if TABLE
  int texel = slice >> 2, row = int(lane(fetch(w0, ivec3(texel & 1023, texel >> 10, 0)), slice & 3));
  if (row >= 0) v = joined(v, flat_element(x2, u.x[2], row * u.i[0].x + inner));
#else
  for (int row = u.i[0].z; row < u.i[0].w; row++) {
    int named = 0, each = u.i[1].x;
    for (int k = 0; k < each; k++) named += index(row * each + k, u.i[2 + k].y) * u.i[2 + k].x;
    if (named == slice) v = joined(v, flat_element(x2, u.x[2], row * u.i[0].x + inner));
  }
#endif
#endif
  return v;
}
