/**
 * Reads the declarations of types in a `.d.ts` file as text: the fields of an interface and the members of a union. It
 * knows the form of the vendor's SDK, and throws if a file has another form.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** A field of an interface. */
export interface FieldDeclaration {
  readonly name: string;
  /** Its type, up to the end of the line. */
  readonly type: string;
  /** The comment before it. */
  readonly comment: string;
}

/** The declarations of one file. */
export class TypeReader {
  readonly #text: string;

  constructor(path: string) {
    this.#text = readFileSync(path, 'utf8');
  }

  /** The fields of an interface, those of nested objects not included. Throws if there is none with this name. */
  fields(name: string): readonly FieldDeclaration[] {
    const start = this.#text.search(new RegExp(`^export interface ${name} \\{$`, 'm'));
    if (start === -1) throw new Error(`no interface is named ${name}`);
    const end = this.#text.indexOf('\n}\n', start);
    const body = this.#text.slice(this.#text.indexOf('\n', start), end);
    const fields: FieldDeclaration[] = [];
    let comment = '';
    for (const line of body.split('\n')) {
      const field = /^ {4}(\w+)\??: (.*)$/.exec(line);
      if (field !== null) {
        fields.push({ name: field[1] ?? '', type: field[2] ?? '', comment });
        comment = '';
      } else if (/^ {4}(?:\/\*\*| \*)/.test(line)) {
        comment += `${line.trim()}\n`;
      }
    }
    if (fields.length === 0) throw new Error(`interface ${name} has no fields`);
    return fields;
  }

  /** The members of a union: names of types, or literals. Throws if there is none with this name. */
  union(name: string): readonly string[] {
    const found = new RegExp(`^export type ${name} = ([^;]+);$`, 'm').exec(this.#text)?.[1];
    if (found === undefined) throw new Error(`no union is named ${name}`);
    return found.split(' | ').map((member) => member.replace(/^'|'$/g, ''));
  }
}

/** A file of the vendor's SDK, by its path below `resources`. */
export function sdkTypes(path: string): TypeReader {
  const root = fileURLToPath(new URL('../../node_modules/@anthropic-ai/sdk/resources/', import.meta.url));
  return new TypeReader(`${root}${path}`);
}

/** Every Claude model that the SDK names. */
export function sdkModels(): readonly string[] {
  return sdkTypes('messages/messages.d.ts')
    .union('Model')
    .filter((name) => name.startsWith('claude-'));
}
