// The source kinds, one file each, in the order of the drawer.
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

/** The kind of a source, by the record or by its kind's name. */
export const getSourceKind = <S extends Source>({ kind }: Pick<S, "kind">): SourceKind<S> =>
  SOURCE_KINDS[kind] as unknown as SourceKind<S>;

/** The source kind for a file's MIME type; undefined if none matches. */
export const sourceKindOfFile = ({ type }: Blob): "picture" | "video" | undefined =>
  (["picture", "video"] as const).find((one) =>
    type.startsWith(SOURCE_KINDS[one].file?.type ?? " "),
  );

/** Whether a source has a sequence of pictures. */
export const canPlay = (source: Source): source is Extract<Source, { playing: boolean }> =>
  getSourceKind(source).canPlay?.(source) ?? false;
