// The kinds of sources: each has a file of its own, and is listed here in the order of the drawer.
import { latent } from "../latent/latent_source.ts";
import { drawing } from "./drawing.ts";
import { images } from "./images.ts";
import { noise } from "./noise.ts";
import { picture } from "./picture.ts";
import type { Source, SourceKindName, SourceOf } from "./records.ts";
import type { SourceKind } from "./source_kind.ts";
import { video } from "./video.ts";
import { webcam } from "./webcam.ts";

export const SOURCE_KINDS: { readonly [K in SourceKindName]: SourceKind<SourceOf<K>> } = {
  picture,
  webcam,
  video,
  drawing,
  images,
  noise,
  latent,
};

export const KIND_NAMES = Object.keys(SOURCE_KINDS) as readonly SourceKindName[];

/** A kind by its name; of the record itself where there is one. */
export const getSourceKind = <S extends Source>({ kind }: Pick<S, "kind">): SourceKind<S> =>
  SOURCE_KINDS[kind] as unknown as SourceKind<S>;

/** The kind of a file by its type; undefined where none has such. */
export const sourceKindOfFile = ({ type }: Blob): "picture" | "video" | undefined =>
  (["picture", "video"] as const).find((one) =>
    type.startsWith(SOURCE_KINDS[one].file?.type ?? " "),
  );

/** Whether a source has pictures after each other. */
export const canPlay = (source: Source): source is Extract<Source, { playing: boolean }> =>
  getSourceKind(source).canPlay?.(source) ?? false;
