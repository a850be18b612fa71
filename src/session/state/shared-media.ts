/**
 * Lets the values parsed from one session's log share their media (base64 of images and documents). A log may have the
 * same image in many messages, and each parse would make another string of it. Pure.
 */
import { MEDIA_CHARACTERS_MIN, SHARED_MEDIA_BYTES_MAX } from '../../base/bounds.ts';

/** Each JSON text with media contains this part. A text without it is parsed without a visit to each member. */
const BASE64 = '"type":"base64"';

/** The media of one reading of a log (see the head of the file); at most `SHARED_MEDIA_BYTES_MAX` are kept. */
export class SharedMedia {
  readonly #known = new Map<string, string>();
  #bytes = 0;

  /** The value of a JSON text. Throws `SyntaxError` like `JSON.parse`. */
  parse(json: string): unknown {
    if (json.length < MEDIA_CHARACTERS_MIN || !json.includes(BASE64)) return JSON.parse(json);
    return JSON.parse(json, (key, value: unknown) => {
      const isMedium = key === 'data' && typeof value === 'string' && value.length >= MEDIA_CHARACTERS_MIN;
      return isMedium ? this.#shared(value) : value;
    });
  }

  /** An equal string from an earlier value, if one is kept; otherwise `text`. */
  #shared(text: string): string {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#bytes + text.length > SHARED_MEDIA_BYTES_MAX) return text;
    this.#bytes += text.length;
    this.#known.set(text, text);
    return text;
  }
}
