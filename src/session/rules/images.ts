/**
 * Checks that the images of a session's window and mailbox fit into one request (R61). The API would refuse every
 * request with too many images, or with too large images beside many others. So an image that does not fit is refused
 * when it arrives. Pure.
 */
import { FEW_IMAGES, IMAGE_SIDE_OF_MANY_MAX } from '../../base/content-rules.ts';
import { imageSide } from '../../base/image-size.ts';
import type { ContentBlock } from '../../base/messages.ts';
import type { ImageTally } from '../state/messages.ts';
import type { SessionState } from '../state/state.ts';

/** Why a content cannot enter: the exceeded limit, the value, and a text with the remedy. */
export interface ImagesProblem {
  readonly limit: 'images' | 'imageSide';
  readonly value: number;
  readonly text: string;
}

/** The images of a content; undefined if it has none. An image that is not in base64 counts with an unknown size. */
export function imagesIn(content: string | readonly ContentBlock[]): ImageTally | undefined {
  if (typeof content === 'string') return undefined;
  let count = 0;
  let side = 0;
  for (const block of content) {
    if (block.type !== 'image') continue;
    count += 1;
    const { data } = block.source;
    if (typeof data === 'string') side = Math.max(side, imageSide(data));
  }
  return count === 0 ? undefined : { count, side };
}

/**
 * Why this content cannot join the window of a session; undefined if it can. `imagesMax`: the model's limit, if known.
 * `removed`: seqs of messages that leave the window in the same transition.
 */
export function imagesProblem(
  state: SessionState,
  content: string | readonly ContentBlock[],
  imagesMax: number | undefined,
  removed?: ReadonlySet<number>,
): ImagesProblem | undefined {
  const added = imagesIn(content);
  if (added === undefined) return undefined;
  let { count, side } = added;
  const add = (images: ImageTally | undefined): void => {
    count += images?.count ?? 0;
    side = Math.max(side, images?.side ?? 0);
  };
  for (const message of state.messages) {
    if (removed?.has(message.seq) !== true) add(imagesIn(message.content));
  }
  for (const entry of state.mailbox) add(entry.images);
  if (imagesMax !== undefined && count > imagesMax) {
    const text = `the session would show ${count} images, and its model takes ${imagesMax} in a request`;
    return {
      limit: 'images',
      value: count,
      text: `${text}; remove images with session.history, or use another session`,
    };
  }
  if (count <= FEW_IMAGES || side <= IMAGE_SIDE_OF_MANY_MAX) return undefined;
  const text = `among more than ${FEW_IMAGES} images none may have more than ${IMAGE_SIDE_OF_MANY_MAX} pixels a side`;
  const remedy = 'scale images down before they are sent, or remove the large ones with session.history';
  return {
    limit: 'imageSide',
    value: side,
    text: `${text}; the session would show ${count}, one of ${side}; ${remedy}`,
  };
}
