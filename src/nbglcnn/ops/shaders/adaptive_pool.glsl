// Adaptive pools: each output pixel joins its share of the map (adaptive_bins.glsl), channel by channel. KIND: 0 largest,
// 1 mean, 2 the number in the map of the first of the largest. u_size of the map, u_places of the output.
vec4 pixel(ivec4 at) {
  ivec3 size = u_size, places = u_places;
  int slice = quotient(at.z, places.y);
  ivec2 deep = share(slice, size.x, places.x), high = share(at.z - slice * places.y, size.y, places.y);
  ivec2 wide = share(at.w, size.z, places.z);
#if KIND == 1
  vec4 sum = vec4(0.0);
#else
  vec4 best = vec4(uintBitsToFloat(0xff800000u)), index = vec4(0.0);
  bool none = true;
#endif
  for (int z = deep.x; z < deep.y; z++) {
    for (int y = high.x; y < high.y; y++) {
#if KIND == 1
      vec4 line = vec4(0.0);
#endif
      for (int x = wide.x; x < wide.y; x++) {
        vec4 v = texel(x0, u.x[0], ivec4(at.xy, z * size.y + y, x));
#if KIND == 1
        line += v;
#elif KIND == 0
        best = larger(best, v);
#else
        // The first of equal ones, and the last NaN, as PyTorch has it.
        bvec4 more = greaterThan(v, best), bad = is_nan(v);
        bvec4 take = bvec4(none || more.x || bad.x, none || more.y || bad.y, none || more.z || bad.z, none || more.w || bad.w);
        float here = float((z * size.y + y) * size.z + x);
        best = vec4(take.x ? v.x : best.x, take.y ? v.y : best.y, take.z ? v.z : best.z, take.w ? v.w : best.w);
        index = vec4(take.x ? here : index.x, take.y ? here : index.y, take.z ? here : index.z, take.w ? here : index.w);
        none = false;
#endif
      }
#if KIND == 1
      sum += line;
#endif
    }
  }
#if KIND == 0
  return best;
#elif KIND == 1
  return sum / float((deep.y - deep.x) * (high.y - high.x) * (wide.y - wide.x));
#else
  return index;
#endif
}
