// How windows go over volumes. The slices of a volume lie one below the other: row y of slice z is row
// z * height + y of the texture's nchw. With DEPTH i[4] has kernel, stride, dilation and padding along depth,
// i[5] the slices of the input, the height of one, and the height of one in the output.
#if DEPTH
#define DEEP u.i[4]
#define SLICES u.i[5].x
#define HEIGHT u.i[5].y
#define SLICE(row) over(row, u.i[5].z)
#define ROW(row) ((row) - SLICE(row) * u.i[5].z)
#else
#define HEIGHT u.x[0].nchw.z
#define ROW(row) (row)
#endif
