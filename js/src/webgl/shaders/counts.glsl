// Values of a strip that are at least as large as each of 16 edges; exact zeros and what is not finite are not
// counted. edges: 4 texels for 16.
vec4 e0, e1, e2, e3;
bvec4 wanted;

void count(float v) {
  vec4 one = vec4(v);
  o0 += vec4(greaterThanEqual(one, e0));
  o1 += vec4(greaterThanEqual(one, e1));
  o2 += vec4(greaterThanEqual(one, e2));
  o3 += vec4(greaterThanEqual(one, e3));
}

void take(vec4 v) {
  uvec4 size = floatBitsToUint(v) & 0x7fffffffu;
  uvec4 ok = uvec4(wanted) * uvec4(notEqual(size, uvec4(0u))) * uvec4(finite(v));
  v = mix(vec4(-BIG), v, bvec4(ok));
  count(v.x);
  count(v.y);
  count(v.z);
  count(v.w);
}

void main() {
  o0 = o1 = o2 = o3 = vec4(0.0);
  int index = index_of();
  int some = over(index, u_fragments), part = index - some * u_fragments;
  if (index >= u_work.w || part >= u_filled) return;
  int groups = over(part, u_work.y), group = groups + u_first_group;
  wanted = u_channel < 0 ? channels(shown_as(0), group) : equal(ivec4(group * 4) + ivec4(0, 1, 2, 3), ivec4(u_channel));
  e0 = fetch(edges, ivec3(some * 4, 0, 0));
  e1 = fetch(edges, ivec3(some * 4 + 1, 0, 0));
  e2 = fetch(edges, ivec3(some * 4 + 2, 0, 0));
  e3 = fetch(edges, ivec3(some * 4 + 3, 0, 0));
  reduce(x0, u.x[0], shown_as(0), u_work, group, part - groups * u_work.y);
}
