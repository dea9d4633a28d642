// What partial results are written to: 2 or 4 targets, a fragment for each texel of theirs.
layout(location = 0) out vec4 o0;
layout(location = 1) out vec4 o1;
#if TARGETS > 2
layout(location = 2) out vec4 o2;
layout(location = 3) out vec4 o3;
#endif
