// One axis of Pillow's resampling of 8-bit pictures, in whole numbers as there: along the rows of a picture (ROWS), then
// along the columns of what that gave. The colours of a picture are multiplied by its alpha first, as Pillow does.
// table: a row for each pixel of the result along the axis: the first pixel that it takes and how many, then four weights
// a texel in 2^-22; those behind the last one are 0.
precision highp float;
precision highp int;
precision highp sampler2D;
precision highp sampler2DArray;
uniform sampler2DArray table;
uniform ivec4 n[3];
layout(location = 0) out vec4 o0;

#ifdef ROWS
uniform sampler2D source;
ivec4 pixel(vec2 at) {
  vec4 v = textureLod(source, at, 0.0);
  return ivec4(vec4(v.rgb * v.a, v.a) * 255.0 + 0.5);
}
#else
uniform sampler2DArray source;
ivec4 pixel(vec2 at) { return ivec4(textureLod(source, vec3(at, 0.0), 0.0) * 255.0 + 0.5); }
#endif

void main() {
  vec2 p = gl_FragCoord.xy;
#ifdef ROWS
  vec2 unit = 1.0 / vec2(textureSize(source, 0));
  float line = p.x;
  vec2 at = vec2(0.0, (p.y + float(u_first)) * unit.y), next = vec2(unit.x, 0.0);
#else
  vec2 unit = 1.0 / vec2(textureSize(source, 0).xy);
  float line = p.y;
  vec2 at = vec2(p.x * unit.x, 0.0), next = vec2(0.0, unit.y);
#endif
  vec2 size = vec2(textureSize(table, 0).xy);
  vec3 entry = vec3(0.5 / size.x, line / size.y, 0.0);
  vec4 head = textureLod(table, entry, 0.0);
  // Where the first pixel is, in whole pixels: a position is a product, since a sum of steps would drift.
  float first = head.x + 0.5, way = 1.0;
  if (u_mirrored < 0) {
    first = -float(u_mirrored) - first;
    way = -1.0;
  }
#ifndef ROWS
  first -= float(u_first);
#endif
  ivec4 sum = ivec4(1 << 21);
  for (int k = 0; k < int(head.y); k += 4) {
    entry.x += 1.0 / size.x;
    ivec4 weights = ivec4(textureLod(table, entry, 0.0));
    float place = first + way * float(k);
    sum += weights.x * pixel(at + next * place) + weights.y * pixel(at + next * (place + way)) +
           weights.z * pixel(at + next * (place + 2.0 * way)) + weights.w * pixel(at + next * (place + 3.0 * way));
  }
  o0 = vec4(clamp(sum >> 22, 0, 255)) / 255.0;
}
