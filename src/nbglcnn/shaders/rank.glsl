// How many elements along an axis come before each one; NaN counts as the largest, equal ones keep their order.
// i[0] length of the axis, elements between two of its places, 1 if the smallest come first.
// i[1] the places from here to there are compared. GOES_ON: x1 has the counts of those in front.
bool before(float a, float b, bool earlier) {
  bool an = is_nan(vec4(a)).x, bn = is_nan(vec4(b)).x;
  if (an || bn) return an && bn ? earlier : an == (u.i[0].z == 0);
  return a == b ? earlier : (a < b) == (u.i[0].z == 1);
}

float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int place = e / u.i[0].y % u.i[0].x, first = e - place * u.i[0].y, count = 0;
  float own = flat_element(x0, u.x[0], e);
  for (int k = u.i[1].x; k < u.i[1].y; k++) {
    if (k != place && before(flat_element(x0, u.x[0], first + k * u.i[0].y), own, k < place)) count++;
  }
#if GOES_ON
  return float(count) + flat_element(x1, u.x[1], e);
#endif
  return float(count);
}
