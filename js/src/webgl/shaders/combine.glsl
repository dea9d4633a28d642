// Combines least and greatest values: what each texel of the output combines is said by its texel of `list`, as the number
// of the first texel of a, how many there are, and the batch that it is of.
void main() {
  ivec4 entry = ivec4(fetch(list, ivec3(gl_FragCoord.xy, 0)));
  if (entry.z != u_batch) discard; // what is known stays
  vec4 low = vec4(BIG), high = vec4(-BIG);
  for (int at = entry.x; at < entry.x + entry.y; at++) {
    int row = over(at, u_width), column = at - row * u_width;
    low = min(low, fetch(a, ivec3(column, row, 0)));
    high = max(high, fetch(a, ivec3(column, row, 1)));
  }
  if (u_share < 1.0) {
    vec4 least = fetch(before, ivec3(gl_FragCoord.xy, 0)), most = fetch(before, ivec3(gl_FragCoord.xy, 1));
    // Nothing finite has no ends that others could come from, or go to.
    bvec4 both = bvec4(uvec4(lessThanEqual(low, high)) * uvec4(lessThanEqual(least, most)));
    low = mix(low, mix(least, low, u_share), both);
    high = mix(high, mix(most, high, u_share), both);
  }
  o0 = low;
  o1 = high;
}
