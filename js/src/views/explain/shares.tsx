// Softmax's number: a power of e, and its share of the sum of all.
import type { Share } from "../../explain/softmax.ts";
import type { Value } from "../../plan/schema.ts";
import { Contributions } from "./contributions.tsx";

/** The powers along the axis as bars. */
export function Shares(props: { source: Value; share: Share; width: number }) {
  const { source, share, width } = props;
  return (
    <Contributions
      contributions={share.powers}
      first={0}
      noun="power"
      words={`e^(x − largest) for each x of ${source.key}`}
      chosen={share.position}
      width={width}
    />
  );
}
