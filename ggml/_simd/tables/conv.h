/* The algorithms of convolutions, in order of preference: ALGORITHM(name, computes, family).
 * A node gets the first algorithm that computes what it needs and whose function `fits` accepts it, when the plan of
 * the call is made. docs/convolutions.md says which shapes these are.
 * name      ops/conv/<name>.h defines the algorithm as conv_<name> (gg_algorithm in runtime/kernel.h).
 * computes  which tensor of the sum in runtime/geometry.h: RESULT, DATA or KERNEL; of depthwise convolutions
 *           DEPTHWISE_RESULT, DEPTHWISE_DATA or DEPTHWISE_KERNEL. The last row for each of them fits all nodes.
 * family    ops/<family>.h includes the file. Those of conv_bytes are compiled for every ISA that multiplies bytes. */
ALGORITHM(bytes_winograd,   RESULT,           conv_bytes)
ALGORITHM(bytes,            RESULT,           conv_bytes)
ALGORITHM(winograd,         RESULT,           conv)
ALGORITHM(winograd_line,    RESULT,           conv)
ALGORITHM(spread,           DATA,             conv)
ALGORITHM(apart,            DATA,             conv)
ALGORITHM(phases,           DATA,             conv)
ALGORITHM(channels,         RESULT,           conv)
ALGORITHM(shifted,          RESULT | DATA,    conv)
ALGORITHM(direct,           RESULT | DATA,    conv)
ALGORITHM(panels,           RESULT | DATA,    conv)
ALGORITHM(correlate,        KERNEL,           conv)
ALGORITHM(correlate_panels, KERNEL,           conv)
ALGORITHM(depthwise_lanes,  DEPTHWISE_RESULT, conv)
ALGORITHM(depthwise,        DEPTHWISE_RESULT, conv)
ALGORITHM(depthwise_data,   DEPTHWISE_DATA,   conv)
ALGORITHM(depthwise_kernel, DEPTHWISE_KERNEL, conv)
