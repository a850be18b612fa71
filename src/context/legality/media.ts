/** Rules for images: R61, which replaced R42. Pure. */
import {
  FEW_IMAGES,
  IMAGE_CHARACTERS_MAX,
  IMAGE_SIDE_MAX,
  IMAGE_SIDE_OF_MANY_MAX,
  IMAGE_TYPES,
} from '../../base/content-rules.ts';
import { imageSide } from '../../base/image-size.ts';
import { isRecord } from '../../base/json.ts';
import { blockPath, type Report, type RequestView } from './report.ts';

interface Image {
  readonly source: Readonly<Record<string, unknown>>;
  /** The path of the image, as the API writes it in the error about an image that is too large. */
  readonly path: string;
  /** The path of the image, as the API writes it in errors about fields. */
  readonly fields: string;
}

/** Reports R61 for the images of messages, and for those inside results. */
export function checkMedia(view: RequestView, report: Report): void {
  const images = imagesOf(view);
  const { imagesMax } = view.traits;
  if (imagesMax !== undefined && images.length > imagesMax) {
    const text = `Too much media: 0 document pages + ${images.length} images > ${imagesMax}`;
    report('R61', 'messages', text);
  }
  const sideMax = images.length > FEW_IMAGES ? IMAGE_SIDE_OF_MANY_MAX : IMAGE_SIDE_MAX;
  const large = images.filter((image) => {
    checkSource(image, report);
    return sideOf(image) > sideMax;
  });
  const [first] = large;
  if (first === undefined) return;
  const kind = images.length > FEW_IMAGES ? 'max allowed size for many-image requests' : 'max allowed size';
  const text = `At least one of the image dimensions exceed ${kind}: ${sideMax} pixels`;
  report('R61', first.path, `${first.path}: ${text}`, true, 'image_dimensions_too_large');
}

function imagesOf(view: RequestView): readonly Image[] {
  const images: Image[] = [];
  const visit = (block: unknown, path: string, fields: string): void => {
    if (!isRecord(block) || block['type'] !== 'image') return;
    images.push({ source: isRecord(block['source']) ? block['source'] : {}, path, fields: `${fields}.image` });
  };
  for (const message of view.messages) {
    message.blocks.forEach((block, index) => {
      const path = blockPath(message, index);
      visit(block, path, path);
      if (block.type !== 'tool_result' || !Array.isArray(block['content'])) return;
      block['content'].forEach((part: unknown, at) => {
        visit(part, `${path}.content.${at}`, `${path}.tool_result.content.${at}`);
      });
    });
  }
  return images;
}

/** Checks the media type of an image, and the length of its encoding. */
function checkSource({ source, fields }: Image, report: Report): void {
  if (source['type'] !== 'base64') return;
  const at = `${fields}.source.base64`;
  if (!IMAGE_TYPES.has(source['media_type'])) {
    const allowed = [...IMAGE_TYPES].map((type) => `'${String(type)}'`).join(', ');
    report('R61', `${at}.media_type`, `${at}.media_type: Input should be one of ${allowed}`);
  }
  if (typeof source['data'] === 'string' && source['data'].length > IMAGE_CHARACTERS_MAX) {
    report('R61', at, `${at}: image exceeds 10 MB maximum`);
  }
}

function sideOf({ source }: Image): number {
  if (source['type'] !== 'base64' || typeof source['data'] !== 'string') return 0;
  return imageSide(source['data']);
}
