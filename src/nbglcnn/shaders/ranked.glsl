// Which place along an axis of x0 holds the rank that is this element's own place.
// i[0] length of the axis, elements between two of its places, length of the axis of the output.
float source(ivec4 at) {
  int e = ((at.x * u.o.frame.y + at.y) * u.o.frame.z + at.z) * u.o.frame.w + at.w;
  int row = e / u.i[0].y, outer = row / u.i[0].z;
  int first = outer * u.i[0].x * u.i[0].y + e - row * u.i[0].y;
  float wanted = float(row - outer * u.i[0].z);
  for (int k = 0; k < u.i[0].x; k++) {
    if (flat_element(x0, u.x[0], first + k * u.i[0].y) == wanted) return float(k);
  }
  return 0.0;
}
