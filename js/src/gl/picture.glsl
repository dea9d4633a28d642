// One triangle that covers the viewport; the range that all maps of a picture share is taken here.
flat out vec2 shared_ends;

void main() {
  vec4 low = fetch(ranges, ivec3(u.i[4].zw, 0));
  vec4 high = fetch(ranges, ivec3(u.i[4].zw, 1));
  vec2 layer = vec2(min(min(low.x, low.y), min(low.z, low.w)), max(max(high.x, high.y), max(high.z, high.w)));
  vec2 range = u.i[3].x == 2 ? u.f[1].zw : layer;
  shared_ends = ends(range.x, range.y);
  gl_Position = vec4(float(gl_VertexID == 1) * 4.0 - 1.0, float(gl_VertexID == 2) * 4.0 - 1.0, 0.0, 1.0);
}
