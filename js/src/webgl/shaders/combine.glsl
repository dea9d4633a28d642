// Combines least and greatest values: what each texel of the output combines is said by its texel of `list`, as the number
// of the first texel of a, how many there are, and the batch that it is of.
// i[0]: batch; i[1]: width of a; f[0].x: share of what is new, where `before` has what was there
void main() {
  ivec4 entry = ivec4(fetch(list, ivec3(gl_FragCoord.xy, 0)));
  if (entry.z != u.i[0].x) discard; // what is known stays
  vec4 low = vec4(BIG), high = vec4(-BIG);
  for (int at = entry.x; at < entry.x + entry.y; at++) {
    int row = over(at, u.i[1].x), column = at - row * u.i[1].x;
    low = min(low, fetch(a, ivec3(column, row, 0)));
    high = max(high, fetch(a, ivec3(column, row, 1)));
  }
  if (u.f[0].x < 1.0) {
    vec4 least = fetch(before, ivec3(gl_FragCoord.xy, 0)), most = fetch(before, ivec3(gl_FragCoord.xy, 1));
    // Nothing finite has no ends that others could come from, or go to.
    bvec4 both = bvec4(uvec4(lessThanEqual(low, high)) * uvec4(lessThanEqual(least, most)));
    low = mix(low, mix(least, low, u.f[0].x), both);
    high = mix(high, mix(most, high, u.f[0].x), both);
  }
  o0 = low;
  o1 = high;
}
