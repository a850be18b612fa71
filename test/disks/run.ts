/**
 * `npm run disks [-- --disks N]`: fills N disks (default 200), each of a different size, alternating between disks in
 * memory and ext4 images on loop devices. Needs root. Exits with 1 if a full disk ended a process, or an acknowledged
 * entry was lost.
 */
import { parseArgs } from 'node:util';
import { type FilledDisk, fillDisk } from './full-disk.ts';

const KIB = 1024;
const { values } = parseArgs({ options: { disks: { type: 'string', default: '200' } } });
const count = Number(values.disks);
if (!Number.isSafeInteger(count) || count < 1)
  throw new Error(`--disks must be a whole number from 1, got ${values.disks}`);

const filled: FilledDisk[] = [];
for (let index = 0; index < count; index += 1) {
  const kind = index % 2 === 0 ? 'tmpfs' : 'ext4';
  // No two disks of a kind have the same size, so each is full at a different page.
  const bytes = (kind === 'tmpfs' ? 900 : 2_048) * KIB + index * 36 * KIB;
  const disk = await fillDisk(kind, bytes, index + 1);
  if (disk === undefined) throw new Error(`a disk of kind ${kind} cannot be made: it needs root, mount and mkfs.ext4`);
  filled.push(disk);
  for (const fault of disk.faults) process.stdout.write(`${kind} of ${bytes} bytes, seed ${index + 1}: ${fault}\n`);
  if ((index + 1) % 20 === 0) process.stdout.write(`${index + 1} disks\n`);
}
const sum = (of: (disk: FilledDisk) => number): number => filled.reduce((total, disk) => total + of(disk), 0);
const faults = sum((disk) => disk.faults.length);
process.stdout.write(
  `${count} disks filled: ${sum((disk) => disk.refusals)} refusals, at least ${Math.min(...filled.map((disk) => disk.refusals))} each; ` +
    `${sum((disk) => disk.acknowledged)} entries acknowledged; ${faults} faults\n`,
);
process.exitCode = faults === 0 ? 0 : 1;
