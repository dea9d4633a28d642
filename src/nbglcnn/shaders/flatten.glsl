// Elements 4t..4t+3 of a tensor in row-major order, for reading back; i[0].x: width of the output in texels.

// Four neighbours in a row, from `at` on.
vec4 along(Layout l, ivec4 at) {
  vec2 unit = 1.0 / vec2(textureSize(x0, 0).xy);
  ivec3 line = address(l, at.x, at.y >> 2, at.z, 0);
  vec2 base = (vec2(line.xy) + 0.5) * unit;
  vec4 x = vec4(at.w, at.w + 1, at.w + 2, at.w + 3);
  vec4 q = floor((x + 0.5) / float(l.phase.y)), p = floor((q + 0.5) / float(l.block.z));
  vec4 column = ((x - q * float(l.phase.y)) * float(l.phase.z) + p) * unit.x + base.x;
  vec4 layer = float(line.z) + q - p * float(l.block.z);
  int k = at.y & 3;
  return vec4(
    lane(FETCH(x0, vec3(column.x, base.y, layer.x)), k), lane(FETCH(x0, vec3(column.y, base.y, layer.y)), k),
    lane(FETCH(x0, vec3(column.z, base.y, layer.z)), k), lane(FETCH(x0, vec3(column.w, base.y, layer.w)), k));
}

void main() {
  Layout l = u.x[0];
  ivec2 p = ivec2(gl_FragCoord.xy);
  int first = (p.y * u.i[0].x + p.x) * 4, last = l.frame.x * l.frame.y * l.frame.z * l.frame.w - 1;
  ivec4 at = unravel(l.frame, min(first, last));
  if (l.frame.w - at.w >= 4) {
    o0 = along(l, at);
    return;
  }
  // Past the end the last element is repeated: a read outside the texture has no defined value.
  for (int k = 0; k < min(l.frame.x, 1) * 4; k++) {
    float e = flat_element(x0, l, min(first + k, last));
    if (k == 0) o0.x = e; else if (k == 1) o0.y = e; else if (k == 2) o0.z = e; else o0.w = e;
  }
}
