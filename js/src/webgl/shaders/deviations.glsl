// Second reduction: squares of the distance from the mean in units of the greatest absolute value, which no
// float overflows in, over u_pixels; exact zeros; NaNs; infinities. a: what min_max.glsl found.
vec4 mean, scale;
vec4 squares = vec4(0.0), zeros = vec4(0.0), nans = vec4(0.0), infinities = vec4(0.0);

void take(vec4 v) {
  bvec4 ok = finite(v);
  vec4 d = v / scale - mean / scale;
  squares = mix(squares, squares + d * d / u_pixels, ok);
  zeros += vec4(equal(floatBitsToUint(v) & 0x7fffffffu, uvec4(0u)));
  nans += vec4(is_nan(v.x), is_nan(v.y), is_nan(v.z), is_nan(v.w));
  infinities += vec4(is_inf(v.x), is_inf(v.y), is_inf(v.z), is_inf(v.w));
}

void main() {
  int index = index_of();
  if (index < u_work.w) {
    int group = index / u_work.y;
    ivec2 p = ivec2(group % u_width_before, group / u_width_before);
    vec4 count = max(fetch(a, ivec3(p, 3)), 1.0);
    mean = fetch(a, ivec3(p, 2)) * (u_pixels / count);
    vec4 most = max(abs(fetch(a, ivec3(p, 0))), abs(fetch(a, ivec3(p, 1))));
    scale = mix(vec4(1.0), most, greaterThan(most, vec4(0.0)));
    reduce(x0, u.x[0], shown_as(0), u_work, group, index - group * u_work.y);
  }
  o0 = squares;
  o1 = zeros;
  o2 = nans;
  o3 = infinities;
}
