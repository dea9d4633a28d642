// Which place along an axis of x0 holds the rank that is this element's own place.
// i[0] length of the axis, elements between two of its places, length of the axis of the output.
// i[1] it is looked for from here to there. GOES_ON: x1 has what was found in front.
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int row = e / u.i[0].y, outer = row / u.i[0].z;
  int first = outer * u.i[0].x * u.i[0].y + e - row * u.i[0].y;
  float wanted = float(row - outer * u.i[0].z);
  for (int k = u.i[1].x; k < u.i[1].y; k++) {
    if (flat_element(x0, u.x[0], first + k * u.i[0].y) == wanted) return float(k);
  }
#if GOES_ON
  return flat_element(x1, u.x[1], e);
#endif
  return 0.0;
}
