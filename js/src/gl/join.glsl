// Joins least and greatest of many values in one draw: all texels of a row of channels (BY_ROW), or one texel a value.
// list: the first partial result in a, how many each texel joins, the number of texels, and the batch that it is of.
// i[0]: batch; i[1]: width of a and of the output, and of the list
void main() {
  ivec2 p = ivec2(gl_FragCoord.xy);
#ifdef BY_ROW
  int number = p.y, k = p.x, layer = 0;
#else
  int number = p.y * u.i[1].x + p.x, k = 0, layer = 1;
#endif
  int line = over(number, u.i[1].x);
  ivec4 entry = ivec4(fetch(list, ivec3(number - line * u.i[1].x, line, layer)));
  if (entry.w != u.i[0].x || k >= entry.z) discard; // what is known stays
  vec4 low = vec4(BIG), high = vec4(-BIG);
  int first = entry.x + k * entry.y;
  for (int at = first; at < first + entry.y; at++) {
    int row = over(at, u.i[1].x), column = at - row * u.i[1].x;
    low = min(low, fetch(a, ivec3(column, row, 0)));
    high = max(high, fetch(a, ivec3(column, row, 1)));
  }
  o0 = low;
  o1 = high;
}
