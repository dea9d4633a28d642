// Softmax's number: a power of e, and its share of the sum of all.
import type { SoftmaxTerms } from "../../explain/softmax.ts";
import type { Value } from "../../plan/schema.ts";
import { Contributions } from "./contributions.tsx";

/** The powers along the axis as bars. */
export function SoftmaxBars(props: { source: Value; terms: SoftmaxTerms; width: number }) {
  const { source, terms, width } = props;
  return (
    <Contributions
      contributions={terms.exponentials}
      firstChannel={0}
      noun="power"
      text={`e^(x − largest) for each x of ${source.key}`}
      chosen={terms.position}
      width={width}
    />
  );
}
